// Package deploymenttest makes the secrets and credentials of a benchmark or chaos run with identity.
package deploymenttest

import (
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

// Deployment holds the secrets of a deployment and the folder of its credentials. A nil *Deployment stands for a bus
// without authentication.
type Deployment struct {
	dir    string
	keys   *deployment.Keys
	public deployment.Public
	signer *auth.Signer
}

const (
	// TokenLife is the lifetime of tokens. It is short, so that every token is renewed many times.
	TokenLife = 10 * time.Second
	// renewable is how long tokens can be renewed: longer than any run.
	renewable = 24 * time.Hour
	// maxStore is the storage limit of servers, larger than any disk, so that streams can reserve what they need.
	maxStore = 1 << 40
)

// Make creates the secrets in dir, or reads those of an earlier run.
func Make(dir string) (d *Deployment, err error) {
	d = &Deployment{dir: dir}
	if d.keys, err = deployment.LoadOrCreate(d.Secrets(), "chaos"); err != nil {
		return nil, err
	}
	if d.public, err = d.keys.Public(); err != nil {
		return nil, err
	}
	d.signer, err = d.keys.Signer()
	return d, err
}

// Secrets returns the folder of the keys.
func (d *Deployment) Secrets() string { return filepath.Join(d.dir, "keys") }

// Keys returns the secrets for dispatchers, or nil without authentication.
func (d *Deployment) Keys() *deployment.Keys {
	if d == nil {
		return nil
	}
	return d.keys
}

// Credentials returns the token file of a process with the given name, or "" without authentication.
func (d *Deployment) Credentials(name string) string {
	if d == nil {
		return ""
	}
	return filepath.Join(d.dir, name+".token")
}

// Issue writes a token with the principal p to the file for name.
func (d *Deployment) Issue(name, tenant string, p auth.Principal, life time.Duration) error {
	p.Tenant, p.ID, p.Family = tenant, auth.NewID(), auth.NewFamily(p.RoleIDs)
	p.Issued = time.Now().Truncate(time.Second)
	p.Expires, p.RenewUntil = p.Issued.Add(life), p.Issued.Add(renewable)
	text, err := d.signer.Mint(p)
	if err != nil {
		return err
	}
	return os.WriteFile(d.Credentials(name), []byte(text+"\n"), 0o600)
}

// Configure writes the configuration file of a server.
func (d *Deployment) Configure(s deployment.Shape) (file string, err error) {
	s.MaxStore = maxStore
	text, err := deployment.Config(d.keys.Deployment, d.public, s)
	if err != nil {
		return "", err
	}
	file = filepath.Join(d.dir, s.Server+".conf")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// Access is a URL and the options to connect to servers directly, without a proxy, with access to all streams.
type Access struct {
	URL string
	How []nats.Option
}

// Dial connects.
func (a Access) Dial(name string) (*nats.Conn, error) { return bus.Dial(a.URL, name, a.How...) }

// Administrator returns an Access with the rights of a dispatcher.
func (d *Deployment) Administrator(url string) Access {
	if d == nil {
		return Access{URL: url}
	}
	return Access{url, []nats.Option{nats.Nkey(d.public.Dispatcher, d.keys.Dispatcher.Sign)}}
}
