-- forget.lua: has the server forgotten token, which was given? A restart may lose data, and so may
-- a failover to a replica that is behind. Included. Needs last, and two values of the record:
-- present, its token; kept, the end of its wait for those who held under that token. Leaves three
-- answers:
--
--   lost     neither the token key nor the record knows token
--   awaited  the record waits for those who held under token
--   ghost    the record is of a smaller token
--
-- enter     lost: a placeholder takes the place of the record, and nobody has the lock for a lease
-- leave     awaited, or lost and nobody was let in since: the release is as clean as any
-- reassert  any of them: the hold is written again
local lost = last < token and present < token
local awaited = present == token and kept > ms
local ghost = 0 < present and present < token
