-- usual_enter.lua: one new ticket, and nothing out of the ordinary: no marks that concern it, and
-- as many deadlines as places. It takes a free lock, joins the line or is turned away. Included by
-- enter, before anything else. If this part does not return, it has written nothing.
if #ARGV == 12 and ARGV[10] == '0' then
  local ticket, owner, lease, most = ARGV[9], ARGV[8], ARGV[7], tonumber(ARGV[11])
  local line = most > 0 and redis.call('LLEN', queue)
  local full = line and line >= most

  if not full and last >= seen and redis.call('EXISTS', record, queue, waiters) == 0 then
    local span = lease
    --#include parts/record.lua
    if try then return {us, tonumber(token), last} end
    if last < us then return us end
    return {us, tonumber(token)}
  end

  local held = redis.call('HMGET', record, 'owner', 'lease', ticket)
  local holder, term, hold = held[1], tonumber(held[2] or nil), held[3]
  local left = holder and redis.call('PTTL', record)
  if holder and holder ~= '' and holder ~= owner and not hold and last >= seen
    and left ~= -1 and left < MAX_LEASE then
    local state, is_heard = nil, 0
    if not try then
      line = line or redis.call('LLEN', queue)
      -- As in look.lua, but for the mark that places were lost: that keeps nobody from joining.
      local client = me
      local scores =
        redis.call('ZMSCORE', waiters, ticket, '!' .. ticket, '~' .. client, '?' .. client)
      local deadline, retired, blind, expected = scores[1], scores[2], scores[3], scores[4]
      local usual = not (deadline or retired or blind or expected)
      if full then
        -- If a waiter is overdue, the sweep may make room: not here.
        if usual and redis.call('ZCOUNT', waiters, '0', string.format('%d', ms)) == 0 then
          state = {'full'}
        end
      elseif usual and line == redis.call('ZCOUNT', waiters, '0', '+inf') then
        --#include parts/heard.lua
        if heard then
          local tail = redis.call('LINDEX', queue, '-1')
          local last_place = tonumber(string.match(tail or '', '^%d+') or 0) or 0
          local at = last_place >= us and last_place < MAX_PLACE and last_place + 1 or us
          redis.call('ZADD', waiters, string.format('%d', ms + LIVENESS), ticket)
          line = redis.call('RPUSH', queue, string.format('%d', at) .. ':' .. ticket)
          state, is_heard = {'waiting', at, line}, 1
          -- The first to join in a while moves the ends of the keys.
          if math.floor(last_place / 1000 / TOUCHED) ~= math.floor(ms / TOUCHED) then
            redis.call('PEXPIREAT', queue, string.format('%d', ms + LINE_TTL))
            redis.call('PEXPIREAT', waiters, string.format('%d', ms + MARK_TTL))
          end
        end
      end
    elseif redis.call('EXISTS', queue, waiters) == 0 then
      state, line = {'taken'}, 0
    end
    if state then
      if not (term and term >= 0 and term <= MAX_LEASE) then term = 0 end
      local remaining = math.min(MAX_LEASE, math.max(1, left))
      return {us, last, holder, term, remaining, line, is_heard, 0, 0, {}, state}
    end
  end
end
