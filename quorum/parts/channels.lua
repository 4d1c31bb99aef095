-- channels.lua: what the clients' channels begin with, as the node's key does. The number of the node
-- is in it: who listens under two names would hear of two votes. Included; needs node and set.
local channels = string.sub(node, 1, -5) .. 'wake:' .. string.match(set, '%d+') .. ':'
