package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/process"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// lists checks that fairlock ls with these arguments and this environment shows a lock called x.
func lists(t *testing.T, env []string, args ...string) {
	t.Helper()
	p := fairlockWith(t, env, append([]string{"ls", "--json"}, args...)...).start()
	p.ends(0)
	if text := strings.Join(p.rest(), "\n"); !strings.Contains(text, `"name":"x"`) {
		t.Errorf("%q %q: %q, stderr %s", env, args, text, p.stderr.String())
	}
}

// holdDirectly holds the lock x through the server's port.
func holdDirectly(t *testing.T, s *redistest.Server) {
	t.Helper()
	take(t, observer(t, s), "x")
}

func TestAServerIsReachedOverASocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	s := redistest.Start(t, "--unixsocket", path)
	holdDirectly(t, s)
	lists(t, nil, "--redis", "unix://"+path)
	lists(t, []string{"FAIRLOCK_REDIS=unix://" + path + "?db=0"})
}

func TestTheMasterIsFoundThroughItsSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "sesame")
	holdDirectly(t, s)
	watching := startSentinel(t, s, "sesame")
	url := "redis://" + watching + "/0?master_name=main&password=sesame"
	lists(t, nil, "--redis", url)

	checkFound(t, findsAt(t, url), "server", good, "main of the Sentinel at "+watching+" answers")
	p := fairlockWith(t, nil, "ls", "--redis", strings.Replace(url, "main", "other", 1)).start()
	p.ends(69)
	p.complains("sentinels", "other of the Sentinel at "+watching)
	checkFound(t, findsAt(t, "redis://"+watching), "topology", wrong, "this is a Sentinel", "master_name=NAME")
}

// startSentinel starts a Sentinel that watches s under the name main, and returns its address.
func startSentinel(t *testing.T, s *redistest.Server, password string) string {
	t.Helper()
	port := freePort(t)
	address := "127.0.0.1:" + port
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	must(t, os.WriteFile(config, fmt.Appendf(nil, "bind 127.0.0.1\nport %s\nsentinel monitor main 127.0.0.1 %d 1\nsentinel auth-pass main %s\n", port, s.Port(), password), 0o600))
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	cmd := exec.Command(program, config, "--sentinel")
	cmd.SysProcAttr = process.DieWithParent()
	ended := make(chan struct{})
	must(t, process.StartOnThread(cmd.Start, func() {
		_ = cmd.Wait() // it was killed, so Wait returns an error
		close(ended)
	}))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	rdb := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { _ = rdb.Close() })
	eventually(t, "the Sentinel knows the master", func() bool {
		return rdb.Do(context.Background(), "sentinel", "get-master-addr-by-name", "main").Err() == nil
	})
	return address
}

func TestTheToolWorksOnAClusterAndSaysSoIfItIsNotToldThatItIsOne(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t)
	env := []string{"FAIRLOCK_REDIS=redis+cluster://" + s.Addr()}
	for _, args := range [][]string{{"ls"}, {"run", "x", "--", "true"}, {"doctor"}} {
		fairlockWith(t, env, args...).start().ends(0)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	locker := fairlock.New(rdb)
	t.Cleanup(func() { _ = locker.Close() }) // never fails
	_, err := locker.Lock(t.Context(), "x")
	must(t, err)
	lists(t, env)
	lists(t, nil, "--redis", "redis://"+s.Addr()+"?addr="+s.Addr())
	fairlockWith(t, env, "force", "x").start().ends(0)

	p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, "doctor").start()
	p.ends(1)
}

// stamps makes an authority and a certificate for 127.0.0.1, and returns files in PEM: ca, cert,
// key.
func stamps(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the tests"}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	must(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return cert, cert, key
}

func TestAServerWithAnAuthorityOfItsOwnIsTrustedIfThatIsNamed(t *testing.T) {
	t.Parallel()
	ca, cert, key := stamps(t)
	port := freePort(t)
	s := redistest.Start(t, "--tls-port", port, "--tls-ca-cert-file", ca, "--tls-cert-file", cert, "--tls-key-file", key)
	holdDirectly(t, s)
	url := "rediss://127.0.0.1:" + port
	lists(t, nil, "--redis", url, "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key)
	lists(t, []string{"FAIRLOCK_REDIS=" + url, "FAIRLOCK_TLS_CA=" + ca, "FAIRLOCK_TLS_CERT=" + cert, "FAIRLOCK_TLS_KEY=" + key})
	lists(t, nil, "--redis", url+"?skip_verify=true", "--tls-cert", cert, "--tls-key", key)
	for _, test := range []struct {
		code       int
		says, args string
	}{
		{69, "unknown authority", "--redis " + url + " --tls-cert " + cert + " --tls-key " + key},
		{69, "certificate required|reset by peer|broken pipe", "--redis " + url + " --tls-ca " + ca}, // the server may hang up early
		{64, "rediss://", "--redis redis://" + s.Addr() + " --tls-ca " + ca},
		{64, "need each other", "--redis " + url + " --tls-key " + key},
		{64, "no certificate", "--redis " + url + " --tls-ca " + key},
		{64, "no such file", "--redis " + url + " --tls-ca " + ca + ".not"},
		{64, "--tls-key", "--redis " + url + " --tls-cert " + cert + " --tls-key " + cert},
	} {
		p := fairlockWith(t, nil, append([]string{"ls"}, strings.Fields(test.args)...)...).start()
		p.ends(test.code)
		if text := p.stderr.String(); !regexp.MustCompile(test.says).MatchString(text) {
			t.Errorf("%s: %s, want %q", test.args, text, test.says)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	must(t, listener.Close())
	return port
}
