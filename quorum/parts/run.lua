-- run.lua: the run id of the server: another one after every start. Included; leaves info and run.
-- A server that says none, as the embedded one, has the empty one. A client that may not ask has
-- none at all: nil.
local info = redis.pcall('INFO', 'server')
local run
if type(info) == 'string' then
  run = string.match(info, 'run_id:(%w+)') or ''
elseif string.find(info.err, 'not supported') then
  run = ''
end
