-- no_sooner.lua: has lease be so long that the token key ends no sooner than it does already: the
-- clients of other holds were told that it lives until then. Included before remember, where the
-- record lives on.
local known = math.ceil((redis.call('PEXPIRETIME', tokens) - ms - TOKEN_TTL) / 2)
if known <= MAX_LEASE then lease = math.max(lease, known) end
