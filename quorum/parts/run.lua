-- run.lua: the run id of the server: another one after every start. Included; leaves info and run.
-- A server that says none, as the embedded one, has the empty one. A client that may not ask has
-- none at all: nil.
local info = redis.pcall('INFO', 'server')
local run
if type(info) == 'string' then
  local _, at = string.find(info, 'run_id:', 1, true)
  run = at and string.match(info, '^%w+', at + 1) or ''
elseif string.find(info.err, 'not supported') then
  run = ''
end
