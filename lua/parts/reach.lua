-- reach.lua: how clients are reached. Included; needs verb and channels.

local function hears(client)
  --#include parts/heard.lua
  return heard
end

local function tell(client, message) redis.pcall(verb, channels .. client, message) end
