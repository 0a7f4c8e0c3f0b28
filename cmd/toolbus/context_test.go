package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// certificates returns a folder with a certificate authority (ca.pem), and a certificate signed by it with its key:
// own.pem, own.key.
func certificates(t *testing.T) (folder string, own tls.Certificate, of *x509.CertPool) {
	t.Helper()
	folder, of = t.TempDir(), x509.NewCertPool()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "own"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, key := newKey(t), newKey(t)
	ca := sign(t, authority, authority, signer, signer)
	put(t, folder, "ca.pem", "CERTIFICATE", ca)
	put(t, folder, "own.pem", "CERTIFICATE", sign(t, leaf, authority, key, signer))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, folder, "own.key", "PRIVATE KEY", der)
	if own, err = tls.LoadX509KeyPair(filepath.Join(folder, "own.pem"), filepath.Join(folder, "own.key")); err != nil {
		t.Fatal(err)
	}
	trusted, err := x509.ParseCertificate(ca)
	if err != nil {
		t.Fatal(err)
	}
	of.AddCert(trusted)
	return folder, own, of
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, cert, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func put(t *testing.T, folder, name, kind string, der []byte) {
	t.Helper()
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// user runs command lines with a folder of configuration.
type user struct {
	t      *testing.T
	config string
	env    environment
}

func (u *user) do(args ...string) (code int, said string) {
	u.t.Helper()
	var out bytes.Buffer
	env := u.env
	env.stdin, env.stdout, env.stderr, env.home, env.config = strings.NewReader(""), &out, &out, u.t.TempDir(), u.config
	return run(u.t.Context(), env, args), out.String()
}

// want runs a command line, and checks its exit code and output.
func (u *user) want(code int, says string, args ...string) {
	u.t.Helper()
	if got, said := u.do(args...); got != code || !strings.Contains(said, says) {
		u.t.Errorf("%v: exit %d, want %d; want %q in:\n%s", args, got, code, says, said)
	}
}

func TestContexts(t *testing.T) {
	t.Parallel()
	u := &user{t: t, config: t.TempDir()}
	u.want(0, "no contexts; add one", "context", "list")
	u.want(2, "no context is in use", "context", "show")
	u.want(2, "the context \"prod\" does not exist: create it", "context", "use", "prod")
	u.want(2, "name it with --server", "context", "add", "prod")
	u.want(2, "context name \"../prod\" is invalid", "context", "add", "../prod", "--server", "nats://a")
	u.want(0, "added", "context", "add", "prod", "--server", "nats://me:secret@127.0.0.1:1", "--tenant", "acme")
	u.want(2, "--replace", "context", "add", "prod", "--server", "nats://127.0.0.1:1")
	u.want(0, "added", "context", "add", "other", "--server", "nats://127.0.0.1:2")
	u.want(2, "use one of other, prod", "--context", "nope", "tools", "list")
	u.want(0, "using prod: nats://me:xxxxx@127.0.0.1:1", "context", "use", "prod")
	u.want(0, "*     prod   nats://me:xxxxx@127.0.0.1:1  acme    -            -", "context", "list")
	u.want(0, `"used": true`, "context", "show", "--json")
	u.want(0, "server  nats://127.0.0.1:2", "context", "show", "other")
	if _, said := u.do("context", "list", "--json"); strings.Contains(said, "secret") {
		t.Errorf("a password is shown: %s", said)
	}
	u.want(0, "other\nprod\n", "__complete", "context", "use", "")
	u.want(0, "other\nprod\n", "__complete", "tools", "list", "--context", "")
	u.want(0, "no context is in use now", "context", "remove", "prod")
	u.want(2, "the context \"prod\" does not exist: use one of other", "context", "remove", "prod")
	file := filepath.Join(u.config, "toolbus", "contexts", "other.json")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(file, []byte(`{"srever":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	u.want(1, "context add other --replace", "--context", "other", "tools", "list")
	gone := []string{"context", "add", "gone", "--replace", "--server", "nats://127.0.0.1:1", "--credentials", "no.token"}
	u.want(0, "no.token: no such file", gone...)
	u.want(0, "", "context", "use", "gone")
	u.want(0, "replaced; it is in use", gone...)
	for _, command := range [][]string{{"tools", "list"}, {"doctor"}, {"executor", "--tools", t.TempDir()}} {
		u.want(1, "credentials of the context gone: stat", command...)
	}
	u.want(1, "name the file with your token", "tools", "list", "--credentials", "no.token")
	u.want(1, "127.0.0.1:1:", "tools", "list", "--server", "nats://127.0.0.1:1")
}

// A command uses the server of the source that takes precedence. No process listens on any of these ports.
func TestContextPrecedence(t *testing.T) {
	t.Parallel()
	u := &user{t: t, config: t.TempDir()}
	for name, port := range map[string]string{"flag": "1", "env": "2", "used": "3"} {
		u.want(0, "", "context", "add", name, "--server", "nats://127.0.0.1:"+port)
	}
	u.want(0, "", "context", "use", "used")
	for _, c := range []struct {
		goes, url, context string
		args               []string
	}{
		{goes: ":3"},
		{goes: ":2", context: "env"},
		{goes: ":1", context: "env", url: "nats://127.0.0.1:5", args: []string{"--context", "flag"}},
		{goes: ":5", url: "nats://127.0.0.1:5"},
		{goes: ":5", url: "nats://127.0.0.1:5", context: "env"},
		{goes: ":6", url: "nats://127.0.0.1:5", args: []string{"--server", "nats://127.0.0.1:6", "--context", "flag"}},
	} {
		u.env.url, u.env.context = c.url, c.context
		u.want(1, "127.0.0.1"+c.goes+":", append([]string{"tools", "list"}, c.args...)...)
		u.want(1, "127.0.0.1"+c.goes+":", append([]string{"executor", "--tools", t.TempDir()}, c.args...)...)
	}
}

// Over TLS, the client verifies the server with a CA certificate, and authenticates with its own certificate if the
// server requires one. The files come from flags or from a context. An error names a missing file's flag. The tenant of
// a context is the default tenant.
func TestContextTLS(t *testing.T) {
	t.Parallel()
	folder, own, of := certificates(t)
	srv := natstest.Start(t, func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: of, MinVersion: tls.VersionTLS12,
			ClientAuth: tls.RequireAndVerifyClientCert}
	})
	file := func(name string) string { return filepath.Join(folder, name) }
	u := &user{t: t, config: t.TempDir()}
	all := []string{"--server", srv.URL, "--tls-ca", file("ca.pem"), "--tls-cert", file("own.pem"),
		"--tls-key", file("own.key")}
	const reached = "no dispatcher is listening"
	u.want(1, reached, append([]string{"tools", "list"}, all...)...)
	u.want(1, "--tls-ca", "tools", "list", "--server", srv.URL)
	u.want(1, "--tls-cert and --tls-key", "tools", "list", "--server", srv.URL, "--tls-ca", file("ca.pem"))
	u.want(2, "belong together", "tools", "list", "--server", srv.URL, "--tls-cert", file("own.pem"))
	u.want(1, "no certificate in PEM", "tools", "list", "--server", srv.URL, "--tls-ca", file("own.key"))
	u.want(1, "none.pem", "tools", "list", "--server", srv.URL, "--tls-ca", file("none.pem"))
	u.want(0, "added", append([]string{"context", "add", "prod", "--tenant", "acme"}, all...)...)
	u.want(0, "", "context", "use", "prod")
	u.want(0, "own certificate", "context", "list")
	u.want(1, reached, "tools", "list")
	u.want(1, "nats-server", "doctor")
	u.want(2, "runs a server of its own", "dev", "--context", "prod")
}
