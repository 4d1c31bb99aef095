-- ARGV: lease (ms), owner, now (ms, the client's), wait (ms). Nil: acquired. 1: busy.
sweep(tonumber(ARGV[3]))
if take(ARGV[2], tonumber(ARGV[1]), tonumber(ARGV[4])) then return nil end
return 1
