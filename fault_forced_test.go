package fairlock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/faultproxy"
)

// What a client hears on its channel and what it is answered come over two connections: that its ownership was forced may
// be known before that it had begun.
func TestALockForcedBeforeItsHolderWasToldOfItIsNotTrusted(t *testing.T) {
	for kind, setup := range map[string]func(f *faulty){"fair": func(*faulty) {}, "plain": func(f *faulty) { f.plain() }} {
		t.Run(kind, func(t *testing.T) {
			onFaulty(t, func(f *faulty) {
				setup(f)
				a, b := f.user(&redis.Options{Addr: f.proxy.Addr(), ReadTimeout: faultPatience}), f.beside()
				first := b.locks("x") // a listens once it has waited
				w := a.asks(faultCtx, "x")
				f.until("it listens", func() bool { return len(f.direct.PubSubChannels(faultCtx, f.prefix+":wake:*").Val()) > 0 })
				f.unlocks(first)
				f.unlocks(w.gets())
				sign := a.locks("sign")

				arrives := make(chan struct{})
				stuck := f.once(f.first(1), faultproxy.RewriteReply(func(reply []byte) []byte {
					<-arrives
					return reply
				}))
				w = a.asks(faultCtx, "x")
				stuck.WaitExecuted(f, 1, faultPatience)
				f.must(b.ForceUnlock(faultCtx, "x"))
				next := b.locks("x")
				f.ends(sign)
				f.must(b.ForceUnlock(faultCtx, "sign"))
				<-sign.Done() // it hears of one after the other
				asked := f.proxy.Count(f.verb("enter"))
				close(arrives)
				f.until("it asks again", func() bool { return f.proxy.Count(f.verb("enter")) > asked || w.hasReturned() })
				f.unlocks(next)
				lease := w.gets()
				f.keeps(lease)
				f.unlocks(lease)
				f.free("x")
			})
		})
	}
}
