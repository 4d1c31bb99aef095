-- The server's time: us in microseconds, ms in milliseconds.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local ms = math.floor(us / 1000)
