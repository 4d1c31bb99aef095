package httplock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/integrations/httplock"
	"github.com/fairlock/locks/test/world"
)

func TestTheReadme(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		locker, mux := world.Host(t, addr), http.NewServeMux()
		charge := func(_ context.Context, _ string, _ int64) error { return nil }
		build := func() error {
			//guide:httplock.md
			byOrder, err := httplock.New(locker,
				func(r *http.Request) string { return "order:" + r.PathValue("order") },
				httplock.Options{Lock: []fairlock.LockOption{fairlock.MaxWaiters(6)}})
			if err != nil {
				return err
			}
			mux.Handle("POST /orders/{order}/pay", byOrder(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx := r.Context() // ends when the lock is lost, too
				token := httplock.Token(ctx)
				if err := charge(ctx, r.PathValue("order"), token); err != nil {
					http.Error(w, err.Error(), http.StatusConflict)
					return
				}
				fmt.Fprintf(w, "paid, with token %d", token)
			})))
			//guide:end
			return nil
		}
		world.Must(t, build())
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		if a := post(t.Context(), server, "/orders/42/pay", ""); !strings.HasPrefix(a.text, "paid, with token ") {
			t.Errorf("%+v", a)
		}
	})
}
