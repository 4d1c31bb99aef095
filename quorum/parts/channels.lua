-- channels.lua: what the clients' channels begin with, as the node's key does. Included; needs node.
local channels = string.sub(node, 1, -5) .. 'wake:'
