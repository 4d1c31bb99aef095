package fairlock_test

import (
	"crypto/x509"
	"errors"
	"testing"

	"github.com/fairlock/locks/test/redistest"
)

func TestACertificateOfAnUnknownAuthorityIsAClearErrorAtOnce(t *testing.T) {
	f := newFaulty(t)
	server := redistest.StartTLS(t, redistest.NewAuthority(t))
	u := f.user(server.Over(redistest.NewAuthority(t).Client("")))
	why := refusal{says: "certificate signed by unknown authority"}
	f.refuses(u.Interface, "x", why)
	f.inspectRefused(u.Interface, "x", why)
	var unknown x509.UnknownAuthorityError
	if _, err := u.Lock(faultCtx, "x"); !errors.As(err, &unknown) {
		t.Errorf("it is not to be found in %v", err)
	}
}

func TestAServerThatWantsACertificateOfItsClientsIsAClearErrorToThoseWithout(t *testing.T) {
	f := newFaulty(t)
	authority := redistest.NewAuthority(t)
	server := redistest.StartTLS(t, authority, "--tls-auth-clients", "yes")
	why := refusal{says: "certificate required|reset by peer|broken pipe"} // it may have hung up before it is heard
	f.refuses(f.user(server.Over(authority.Client(""))).Interface, "x", why)
	f.unlocks(f.user(server.Over(authority.Client("a worker"))).locks("x"))
}
