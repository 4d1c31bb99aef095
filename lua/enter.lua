-- enter: acquiring, heartbeat and recovery in one.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 'wait', 'some': the same for one of several of the client's tickets in line, which does not speak for the others, 'try', or
--         'plain': a try for a lock without a line
--       2 seen: the largest recent token the client knows of this lock, 0 for none
--       3 lease (ms) that a placeholder of seen lives for at least, should the server have forgotten it
--       4 PUBLISH or SPUBLISH  5 the channels' common start  6 the client
--       7 lease (ms)  8 owner of the first ticket, as it says itself: a free lock costs no parsing then
--       9.. per ticket: ticket, place (us; 0 for one that has none yet), most waiters (0: no bound), '1' to be told its position, and
--           to be put there if a late request, sent before it had a place, put it elsewhere (in a line of up to 10,000)
--           all tickets are the client's own, in the order of their places
-- Reply server time (us), which is also the token, or {server time (us), token}: the one ticket holds the lock, nobody waits, nothing
--       was forgotten; or
--       1 server time (us)      2 the largest token given   3 holder's owner, '' for a free lock
--       4 holder's lease (ms)   5 how long nobody can have it unless it is released (ms)   6 length of the line
--       7 1: the client's channel is heard   8 1: the server had forgotten seen   9 1: call again: the lock is free and 500 were dropped, or others of the client have to come back
--       10 {} or a grant to a ticket of this client that is not in the request, made by it or while the client was blind:
--          {ticket, token, remaining ms, since us}
--       11.. per ticket: {'granted', token, remaining ms, since ms}  it holds the lock
--                        {'waiting', place, position}  in line; the position (1 = next) if it is new or asked for, else 0
--                        {'returned', place, position}  the same; it had been passed over, swept or lost
--                        {'held'}    try: somebody else has it, or comes first
--                        {'full'}    as many wait as it allows
--                        {'gone'}    it was retired
-- Errors: WRONGTYPE (also of a token key that holds no number, or one that no other can follow,
-- and of a ticket's own record without a
--       token) and OOM come before anything is written.

--#include terms.lua
local record, queue, waiters, tokens = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local plain, some = ARGV[1] == 'plain', ARGV[1] == 'some'
local try = plain or ARGV[1] == 'try'
local seen, verb, channels, me = tonumber(ARGV[2]), ARGV[4], ARGV[5], ARGV[6]
local numsub = verb == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local ms = math.floor(us / 1000)

-- One new ticket, and nothing out of the ordinary: no marks that concern it, and as many deadlines as places.
if #ARGV == 12 and ARGV[10] == '0' then
  local ticket, owner, lease, most = ARGV[9], ARGV[8], ARGV[7], tonumber(ARGV[11])
  local line = most > 0 and redis.call('LLEN', queue)
  local full = line and line >= most
  --#include last.lua

  -- It takes a free lock.
  if not full and last >= seen and redis.call('EXISTS', record, queue, waiters) == 0 then
    local span = lease
    --#include record.lua
    if last < us then return us end
    return {us, tonumber(token)}
  end

  -- Somebody else has the lock: it joins the line, or is turned away. The keys' ends are moved by the first to join in five seconds.
  local now = redis.call('HMGET', record, 'owner', 'lease', ticket)
  if now[1] and now[1] ~= '' and now[1] ~= owner and not now[3] and last >= seen then
    local state, joins, is_heard = nil, false, 0
    line = line or redis.call('LLEN', queue)
    if plain then
      state = {'held'}
    elseif not try then -- a try looks at the line, too
      local marks = redis.call('ZMSCORE', waiters, ticket, '!' .. ticket, '~' .. me, '^' .. me)
      local usual = not (marks[1] or marks[2] or marks[3] or marks[4])
      if not full then
        joins = usual and line == redis.call('ZCOUNT', waiters, '0', '+inf')
      elseif usual and redis.call('ZCOUNT', waiters, '0', string.format('%d', ms)) == 0 then -- nor is anybody overdue
        state = {'full'}
      end
    end
    if joins and tonumber(redis.pcall('PUBSUB', numsub, channels .. me)[2] or 0) > 0 then
      local latest = tonumber(string.match(redis.call('LINDEX', queue, '-1') or '', '^%d+') or 0)
      local at = latest >= us and latest < MAX_PLACE and latest + 1 or us
      redis.call('ZADD', waiters, string.format('%d', ms + LIVENESS), ticket)
      line, is_heard = redis.call('RPUSH', queue, string.format('%d', at) .. ':' .. ticket), 1
      if math.floor(latest / 1000 / TOUCHED) ~= math.floor(ms / TOUCHED) then
        redis.call('PEXPIREAT', queue, string.format('%d', ms + LINE_TTL))
        redis.call('PEXPIREAT', waiters, string.format('%d', ms + MARK_TTL))
      end
      state = {'waiting', at, line}
    end
    if state then
      local term = tonumber(now[2])
      if not (term and term >= 0 and term <= MAX_LEASE) then term = 0 end
      return {us, last, now[1], term, math.min(MAX_LEASE, math.max(1, redis.call('PTTL', record))), line, is_heard, 0, 0, {}, state}
    end
  end
end

--#include advance.lua

local fields, marks, returning = {'owner', 'token', 'lease', 'since'}, {'~' .. me, '?', '^' .. me}, false
for i = 9, #ARGV, 4 do
  fields[#fields + 1] = ARGV[i]
  marks[#marks + 1] = ARGV[i]
  marks[#marks + 1] = '!' .. ARGV[i]
  returning = returning or ARGV[i + 1] ~= '0'
end
local held = redis.call('HMGET', record, unpack(fields))
local line = redis.call('LLEN', queue)
local live = redis.call('ZCOUNT', waiters, 0, '+inf')
--#include last.lua
if seen > last and seen > MAX_TOKEN then return redis.error_reply('WRONGTYPE no token can follow ' .. ARGV[2] .. ' in ' .. tokens) end
local holder = {owner = held[1], token = number(held[2], MAX_TOKEN), lease = number(held[3], MAX_LEASE), since = number(held[4], MAX_TIME)}

-- A record whose token is damaged can be waited for, and ends; nobody can be told that it is his.
for i = 5, holder.token == 0 and #fields or 0 do
  if held[i] or held[1] and held[1] == select(3, split(fields[i])) then
    return redis.error_reply('WRONGTYPE the record ' .. record .. ' holds no token')
  end
end
if holder.owner == '' and (holder.since == 0 or holder.since > ms) then holder.since = ms end

-- A full server refuses only a script's first write. This one is never refused, so whoever waits goes on waiting.
if returning then redis.call('PEXPIREAT', queue, num(ms + LINE_TTL)) end

-- The server has forgotten a token that was given: nobody takes the lock until its holder has had a lease's time to
-- come back, the longest of which anybody tells who knows the token. A record with a smaller token is a ghost of before.
local spare = tonumber(ARGV[3])
local forgot = seen > last
local ghost = forgot and holder.token < seen
if ghost then holder = {owner = '', token = seen, lease = 0, since = ms} end
local keeps = holder.owner == '' and seen >= holder.token and spare > holder.lease
if keeps then holder.lease = spare end
if forgot then last = math.max(seen, holder.token) end
if forgot or keeps then redis.call('SET', tokens, num(last), 'PXAT', num(ms + math.max(TOKEN_TTL, 2 * holder.lease))) end
if ghost then
  redis.call('DEL', record)
  for i = 5, #fields do held[i] = false end
end
if keeps then
  local till = holder.since + spare
  redis.call('HSET', record, 'owner', '', 'token', num(holder.token), 'since', num(holder.since), 'lease', ARGV[3], 'kept', num(till) .. ':0')
  redis.call('PEXPIREAT', record, num(till))
end
if forgot and line == 0 and not plain then gather() end

-- Line and set disagree: somebody deleted one of them. A place without a deadline gets one; a deadline without a
-- place goes, and its client brings both back.
local function mend()
  local known, deadlines, strays, indices = redis.call('ZRANGEBYSCORE', waiters, 0, '+inf', 'WITHSCORES'), {}, {}, {}
  for i = 1, #known, 2 do deadlines[known[i]] = number(known[i + 1], math.huge) end
  walk(line, true, function(element, i)
    local ticket = ticket_of(element)
    local deadline = deadlines[ticket]
    if not split(ticket) or deadline == false then -- it is none, or stands there twice
      strays[#strays + 1], indices[#indices + 1] = element, i
    else
      if not deadline then redis.call('ZADD', waiters, num(ms + LIVENESS), ticket) end
      deadlines[ticket] = false
    end
  end)
  line = line - cut(strays, indices)
  for ticket, deadline in pairs(deadlines) do
    if deadline then
      redis.call('ZREM', waiters, ticket)
      if deadline > ms then gather() end
    end
  end
end
local mended = line ~= live
if mended then mend() end

local scores = redis.call('ZMSCORE', waiters, unpack(marks))
local is_heard = not try and heard(me)
local gathering = not plain and valid(scores[2])
local free = not holder.owner and not gathering

local moved = false -- somebody stands elsewhere than at first
local function place(ticket, at)
  redis.call('ZADD', waiters, num(ms + LIVENESS), ticket)
  line = line + 1
  return {'waiting', at, line}
end

-- The elements of the tickets in line whose client does not know their places, all found in one
-- walk.
local unplaced
local function standing(ticket)
  if not unplaced then
    local many = 0
    unplaced = {}
    for i = 9, #ARGV, 4 do
      if ARGV[i + 1] == '0' and scores[(i - 9) / 2 + 4] then unplaced[ARGV[i]], many = '', many + 1 end
    end
    walk(line, false, function(element)
      local other = ticket_of(element)
      if unplaced[other] == '' then unplaced[other], many = element, many - 1 end
      return many == 0
    end)
  end
  return unplaced[ticket] or ''
end

-- A ticket that comes back: to the end if that is its place, else before the first one with a later place.
local function back(ticket, at)
  local tail = redis.call('LINDEX', queue, -1)
  local element = num(at) .. ':' .. ticket
  if not tail or place_of(tail) <= at then
    redis.call('RPUSH', queue, element)
  else
    local low, high = 0, line - 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if place_of(redis.call('LINDEX', queue, middle)) > at then high = middle else low = middle + 1 end
    end
    redis.call('LINSERT', queue, 'BEFORE', redis.call('LINDEX', queue, low), element)
  end
  place(ticket, at)
  moved = true
  return {'returned', at, 0}
end

-- Asked for by few, at most every 5 s; beyond 10,000 it is not looked for. Several are found in
-- one walk, which is out of date when somebody was moved.
local asking, stands = 0, nil
for i = 12, #ARGV, 4 do if ARGV[i] == '1' then asking = asking + 1 end end
local function position(ticket, at)
  local element = num(at) .. ':' .. ticket
  if asking == 1 then
    local index = redis.call('LPOS', queue, element, 'MAXLEN', LOOKS)
    return index and index + 1 or 0
  end
  if not stands then
    stands = {}
    walk(math.min(line, LOOKS), true, function(other, i) stands[other] = i + 1 end)
  end
  return stands[element] or 0
end

-- Overdue tickets do not fill a line. Only asked when it looks full.
local function sweep()
  if redis.call('ZCOUNT', waiters, 0, ms) == 0 then return end
  local overdue, wanted = redis.call('ZRANGEBYSCORE', waiters, 0, ms, 'LIMIT', 0, SWEEPS), {}
  for _, ticket in ipairs(overdue) do wanted[ticket] = true end
  line = line - take_all(wanted, #overdue, line, true) -- they have waited for longest
  redis.call('ZREM', waiters, unpack(overdue))
  moved = true
end

-- An explicit owner's further hold: same ownership, same token, a deadline of its own.
local function join(ticket, at)
  local _, lease = split(ticket)
  redis.call('PEXPIREAT', record, num(math.max(math.min(redis.call('PEXPIRETIME', record), MAX_TIME), ms + lease)))
  holder.lease = math.max(holder.lease, lease)
  redis.call('HSET', record, ticket, num(ms + lease) .. ':1', 'lease', holder.lease)
  last = math.max(last, holder.token)
  redis.call('SET', tokens, num(last), 'PXAT', num(ms + math.max(TOKEN_TTL, 2 * holder.lease)))
  if redis.call('ZREM', waiters, ticket) == 1 then line, moved = line - take_out(ticket, at, line), true end
  return {'granted', holder.token, lease, ms}
end

local function take(ticket)
  local _, lease, owner = split(ticket)
  local span = lease
  --#include record.lua
  free, last = false, tonumber(token)
  holder = {owner = owner, token = last, lease = lease}
  return {'granted', last, lease, ms}
end

local function enter(i, k, hold)
  local ticket, at, most = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local score, retired = scores[2 * k + 2], scores[2 * k + 3]
  if retired then return {'gone'} end
  if hold then
    local deadline = end_of(hold)
    if deadline > ms then return {'granted', holder.token, deadline - ms, holder.since} end
  end
  if free and line == 0 and (try or returning or not valid(scores[3])) then return take(ticket) end
  if holder.owner == select(3, split(ticket)) then return join(ticket, at) end
  if try then return {'held'} end
  if score and at == 0 then at = place_of(standing(ticket)) end
  if score and at > 0 and ARGV[i + 3] == '1' and line <= LOOKS and position(ticket, at) == 0 then
    line = line - take_out(ticket, at, line)
    return back(ticket, at)
  end
  if score and at > 0 then
    redis.call('ZADD', waiters, num(ms + LIVENESS), ticket)
    return {'waiting', at, 0}
  end
  if at > 0 then return back(ticket, at) end
  if most > 0 and line >= most then sweep() end
  if most > 0 and line >= most then return {'full'} end
  local tail = redis.call('LINDEX', queue, -1)
  at = tail and math.max(us, place_of(tail) + 1) or us
  redis.call('RPUSH', queue, num(at) .. ':' .. ticket)
  return place(ticket, at)
end

local states, mine = {}, {}
for k = 1, (#ARGV - 8) / 4 do
  local i = 5 + 4 * k
  states[k] = enter(i, k, held[4 + k])
  mine[ARGV[i]] = k
end
if moved then stands = nil end
for k, state in ipairs(states) do
  local i = 5 + 4 * k
  if ARGV[i + 3] == '1' and state[3] == 0 then state[3] = position(ARGV[i], state[2]) end
end

-- A newcomer, or one of several, does not speak for those of its client who were passed over:
-- only with them the client is back.
local grant, more = {}, 0
if scores[3] and not try then
  if returning and not some then redis.call('ZREM', waiters, '^' .. me) else more = 1 end
end
if free then
  local given = advance()
  line = redis.call('LLEN', queue)
  if given then
    local ticket, token = given[1], tonumber(given[2])
    local client, lease, owner = split(ticket)
    last, holder = token, {owner = owner, token = token, lease = lease}
    if mine[ticket] then
      states[mine[ticket]] = {'granted', token, given[3], ms}
    elseif client == me then
      grant = {ticket, token, given[3], us}
    end
  elseif given == false then
    more = 1
  elseif try and states[1][1] == 'held' then
    states[1] = take(ARGV[9])
  end
end

-- What was granted while nobody heard this client is told when it asks: it may be to a ticket that it knows no more.
if scores[1] and not try and #grant == 0 then
  local fields = redis.call('HGETALL', record)
  for i = 1, #fields, 2 do
    local deadline = split(fields[i]) == me and not mine[fields[i]] and end_of(fields[i + 1]) or 0
    if deadline > ms and holder.token > 0 then grant = {fields[i], holder.token, deadline - ms, (holder.since or ms) * 1000} end
  end
end

if line > 0 and (mended or not try) then
  redis.call('PEXPIREAT', queue, num(ms + LINE_TTL))
  if not try and not is_heard then
    mark('~' .. me, BLIND)
  elseif not try and scores[1] then
    redis.call('ZREM', waiters, '~' .. me)
  end
  redis.call('PEXPIREAT', waiters, num(ms + MARK_TTL))
end

-- A record lives through the millisecond of its deadline. Held for no time would be no reason to come back.
local remaining = math.min(MAX_LEASE, redis.call('PTTL', record))
if remaining == 0 then remaining = 1 end
if remaining < 0 then remaining = gathering and -tonumber(scores[2]) - ms or 0 end
return {us, last, holder.owner or '', holder.lease, remaining, line,
  is_heard and 1 or 0, forgot and 1 or 0, more, grant, unpack(states)}
