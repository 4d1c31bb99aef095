-- record.lua: a fresh record for ticket, of owner and lease, held until ms + span. Included. Leaves
-- token, a text; it is larger than last.
local token = string.format('%d', last >= us and last + 1 or us)
local till = string.format('%d', ms + span)
--#include parts/remember.lua
redis.call('HSET', record, 'owner', owner, 'token', token, 'since', string.format('%d', ms),
  'lease', lease, ticket, till .. ':1')
redis.call('PEXPIREAT', record, till)
