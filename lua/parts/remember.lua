-- remember.lua: token, a text, is the largest that was given. The server keeps the token for longer
-- than lease. Included.
redis.call('SET', tokens, token,
  'PXAT', string.format('%d', ms + math.max(TOKEN_TTL, 2 * lease)))
