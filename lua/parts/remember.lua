-- remember.lua: token, a text, is the largest that was given. The server keeps the token for
-- TOKEN_TTL longer than a hold of lease, which may be prolonged once. Included.
redis.call('SET', tokens, token,
  'PXAT', string.format('%d', ms + TOKEN_TTL + 2 * lease))
