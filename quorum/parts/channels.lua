-- channels.lua: what the clients' channels begin with, as the node's key does. Included; needs node
-- and set. The node's number is in it: who listens under two names would hear of two votes.
local channels = string.sub(node, 1, -5) .. 'wake:' .. string.match(set, '%d+') .. ':'
