-- keep.lua: a record of token that nobody holds yet; it is kept for owner, or whoever it was, until
-- till. Included.
redis.call('HSET', record, 'owner', owner, 'token', num(token), 'since', num(since),
  'lease', num(lease), 'kept', num(till) .. ':0')
redis.call('PEXPIREAT', record, num(till))
