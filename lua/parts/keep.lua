-- keep.lua: a record of token that nobody holds yet. It is kept until till for owner; '': for
-- whoever it was. Included.
redis.call('HSET', record, 'owner', owner, 'token', num(token), 'since', num(since),
  'lease', num(lease), 'kept', num(till) .. ':0')
redis.call('PEXPIREAT', record, num(till))
