-- run.lua: the run id of the server: another one after every start. Included; leaves info and run.
-- A server that says none, as the embedded one, has the empty one.
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
