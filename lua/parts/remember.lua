-- remember.lua: token, a text, is the largest that was given; the server keeps it for longer than
-- lease. Included.
redis.call('SET', tokens, token,
  'PXAT', string.format('%d', ms + math.max(TOKEN_TTL, 2 * lease)))
