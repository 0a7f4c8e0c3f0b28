package processtest

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

// Options configures [Prepare].
type Options struct {
	Programs Programs
	Profile  string // name of one of [deployment.Profiles]
	TLS      bool   // use TLS also on loopback
}

// Deployment is a deployment that `toolbus keys init` has written, on free loopback ports.
type Deployment struct {
	Programs
	T       testing.TB
	Dir     string
	URL     string // comma-separated URLs of all servers
	Keys    *deployment.Keys
	Servers []*Process // a server that was not started is nil
	Memory  string     // GOMEMLIMIT of servers; "" sets none

	tls bool
}

// Prepare writes a deployment. It does not start servers.
func Prepare(t testing.TB, o Options) *Deployment {
	t.Helper()
	profile, err := deployment.ProfileNamed(o.Profile)
	if err != nil {
		t.Fatal(err)
	}
	d := &Deployment{
		Programs: o.Programs, T: t, Dir: filepath.Join(t.TempDir(), "deployment"), tls: o.TLS,
		Servers: make([]*Process, profile.Servers),
	}
	args, scheme := []string{"keys", "init", d.Dir, "--profile", o.Profile}, "nats://"
	if o.TLS {
		args, scheme = append(args, "--tls"), "tls://"
	}
	var urls []string
	for range profile.Servers {
		host := "127.0.0.1:" + strconv.Itoa(FreePort(t))
		args, urls = append(args, "--host", host), append(urls, scheme+host)
	}
	Output(t, o.Programs.Toolbus(), args...)
	d.URL = strings.Join(urls, ",")
	if d.Keys, err = deployment.Load(filepath.Join(d.Dir, "keys")); err != nil {
		t.Fatal(err)
	}
	for i := range d.Servers {
		d.anyDisk(i)
	}
	return d
}

// FreePort returns a free loopback port. The port for cluster routes, 2000 above it, is free too.
func FreePort(t testing.TB) int {
	t.Helper()
	for {
		one, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := one.Addr().(*net.TCPAddr).Port
		other, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+2000))
		_ = one.Close()
		if err == nil {
			_ = other.Close()
			return port
		}
	}
}

// Conf returns the path of a server's configuration file.
func (d *Deployment) Conf(i int) string {
	return filepath.Join(d.Dir, fmt.Sprintf("nats-%d.conf", i+1))
}

// anyDisk raises the storage limit of a server above the size of the disk. Tests store little.
func (d *Deployment) anyDisk(i int) {
	d.T.Helper()
	text, err := os.ReadFile(d.Conf(i))
	if err == nil {
		const block = "jetstream {"
		changed := strings.Replace(string(text), block, block+"\n  max_file_store: 1TB", 1)
		err = os.WriteFile(d.Conf(i), []byte(changed), 0o644)
	}
	if err != nil {
		d.T.Fatal(err)
	}
}

// Serve starts servers that do not run, and waits until they listen.
func (d *Deployment) Serve(which ...int) {
	d.T.Helper()
	for _, i := range which {
		cmd := exec.Command(d.Server(), "-c", d.Conf(i))
		if d.Memory != "" {
			cmd.Env = append(os.Environ(), "GOMEMLIMIT="+d.Memory)
		}
		d.Servers[i] = Launch(d.T, cmd)
	}
	for _, i := range which {
		d.Servers[i].listens(d.T, d.Host(i))
	}
}

// ServeBy starts a server by another command than that of Serve, and waits until it listens.
func (d *Deployment) ServeBy(i int, cmd *exec.Cmd) {
	d.T.Helper()
	d.Servers[i] = Launch(d.T, cmd)
	d.Servers[i].listens(d.T, d.Host(i))
}

// Host returns the host:port of a server for clients.
func (d *Deployment) Host(i int) string {
	_, host, _ := strings.Cut(strings.Split(d.URL, ",")[i], "://")
	return host
}

// Access returns the flags with which toolbus connects to the servers.
func (d *Deployment) Access() []string { return d.access(filepath.Join(d.Dir, "tls")) }

func (d *Deployment) access(certificates string) []string {
	args := []string{"--server", d.URL}
	if d.tls {
		args = append(args, "--tls-ca", filepath.Join(certificates, "ca.crt"),
			"--tls-cert", filepath.Join(certificates, "client.crt"), "--tls-key", filepath.Join(certificates, "client.key"))
	}
	return args
}

// Handed returns the flags of a process that runs as another user. That user cannot read the folder of the deployment,
// so Handed copies the credential and the TLS files to a folder of that user.
func (d *Deployment) Handed(credential string, uid int) []string {
	d.T.Helper()
	dir := d.T.TempDir()
	files := map[string]string{"token": credential}
	if d.tls {
		for _, name := range []string{"ca.crt", "client.crt", "client.key"} {
			files[name] = filepath.Join(d.Dir, "tls", name)
		}
	}
	for name, from := range files {
		text, err := os.ReadFile(from)
		to := filepath.Join(dir, name)
		if err == nil {
			err = errors.Join(os.WriteFile(to, text, 0o600), os.Chown(to, uid, uid))
		}
		if err != nil {
			d.T.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(dir, uid, uid), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		d.T.Fatal(err)
	}
	return append([]string{"--credentials", filepath.Join(dir, "token")}, d.access(dir)...)
}

// TLS returns the TLS configuration of clients, or nil without TLS.
func (d *Deployment) TLS() *tls.Config {
	d.T.Helper()
	if !d.tls {
		return nil
	}
	return TLS(d.T, d.Dir)
}

// TLS returns the TLS configuration for clients of the deployment in dir.
func TLS(t testing.TB, dir string) *tls.Config {
	t.Helper()
	dir = filepath.Join(dir, "tls")
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}, ServerName: "127.0.0.1",
		MinVersion: tls.VersionTLS13}
}

// Credential writes a token, valid for an hour, to a new file. The tenant is default if p has none.
func (d *Deployment) Credential(p auth.Principal) (file, token string) {
	d.T.Helper()
	signer, err := d.Keys.Signer()
	if err != nil {
		d.T.Fatal(err)
	}
	p.Tenant, p.ID, p.Family = cmp.Or(p.Tenant, "default"), auth.NewID(), auth.NewID()
	p.Issued, p.Expires = time.Now(), time.Now().Add(time.Hour)
	if token, err = signer.Mint(p); err != nil {
		d.T.Fatal(err)
	}
	file = filepath.Join(d.T.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		d.T.Fatal(err)
	}
	return file, token
}
