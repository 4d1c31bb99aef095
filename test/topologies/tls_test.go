package topologies

import (
	"context"
	"crypto/x509"
	"errors"
	"testing"

	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

func TestACertificateOfAnUnknownAuthorityIsAClearErrorAtOnce(t *testing.T) {
	f := world.NewFaulty(t)
	server := redistest.StartTLS(t, redistest.NewAuthority(t))
	u := f.User(server.Over(redistest.NewAuthority(t).Client("")))
	why := world.Refusal{Says: "certificate signed by unknown authority"}
	f.Refuses(u.Interface, "x", why)
	f.InspectRefused(u.Interface, "x", why)
	var unknown x509.UnknownAuthorityError
	if _, err := u.Lock(context.Background(), "x"); !errors.As(err, &unknown) {
		t.Errorf("it is not to be found in %v", err)
	}
}

func TestAServerThatWantsACertificateOfItsClientsIsAClearErrorToThoseWithout(t *testing.T) {
	f := world.NewFaulty(t)
	authority := redistest.NewAuthority(t)
	server := redistest.StartTLS(t, authority, "--tls-auth-clients", "yes")
	// The server may have hung up before the client reads its alert.
	why := world.Refusal{Says: "certificate required|reset by peer|broken pipe"}
	f.Refuses(f.User(server.Over(authority.Client(""))).Interface, "x", why)
	f.Unlocks(f.User(server.Over(authority.Client("a worker"))).Locks("x"))
}
