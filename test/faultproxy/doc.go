// Package faultproxy stands between a Redis client and its server and breaks
// the network on purpose: it loses the reply of one request, holds one request
// back until its client has given up, cuts, refuses or freezes connections.
//
// A lock library is only as good as what it does when it cannot know whether
// its request was executed. [New] makes a proxy for one test; [Proxy.Add] gives
// it a [Rule], which picks requests by their arguments and says what happens
// to them:
//
//	p := faultproxy.New(t, server.Addr())
//	client := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1})
//	lost := p.Add(faultproxy.Rule{
//		Match:  faultproxy.Command("EVALSHA"),
//		Times:  1,
//		Action: faultproxy.SwallowReply(),
//	})
//	// ... the client's next EVALSHA is executed, but it only sees EOF ...
//	lost.WaitExecuted(t, 1, time.Second)
//
// # How it works
//
// Every client connection has an upstream connection of its own and three
// goroutines: one reads requests from the client as they come, one takes them
// in order, applies the rules and forwards them, one reads the replies and
// matches each to the oldest request that still waits for one. That works
// because Redis answers in order. RESP3 push frames answer nothing and pass.
//
// A connection that subscribes leaves that order: from the first reply to
// (P|S)SUBSCRIBE on, what the server sends is copied as it is. Requests still
// meet the rules there, but actions on replies no longer apply and executions
// are no longer reported.
//
// CLIENT REPLY OFF and SKIP are not supported: they break the order too.
package faultproxy
