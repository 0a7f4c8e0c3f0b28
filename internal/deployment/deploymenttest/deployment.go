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

// Deployment is secrets, and credentials of all that connect. A nil one is a bus that lets everybody in.
type Deployment struct {
	dir    string
	keys   *deployment.Keys
	public deployment.Public
	signer *auth.Signer
}

const (
	// TokenLife is so short that every token is renewed many times.
	TokenLife = 10 * time.Second
	// renewable is longer than any run.
	renewable = 24 * time.Hour
	// maxStore is what streams may reserve: all that they like, however small the disk is.
	maxStore = 1 << 40
)

// Make makes the secrets, or reads those of an earlier run in the same folder.
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

// Secrets is the folder of the keys.
func (d *Deployment) Secrets() string { return filepath.Join(d.dir, "keys") }

// Keys are the secrets that dispatchers have; nil on a bus that lets everybody in.
func (d *Deployment) Keys() *deployment.Keys {
	if d == nil {
		return nil
	}
	return d.keys
}

// Credentials is the file with the token of whoever is called so; "" where nobody has one.
func (d *Deployment) Credentials(name string) string {
	if d == nil {
		return ""
	}
	return filepath.Join(d.dir, name+".token")
}

// Issue writes a token for p, and says in its file name whose it is.
func (d *Deployment) Issue(name, tenant string, p auth.Principal, life time.Duration) error {
	p.Tenant, p.ID, p.Family = tenant, auth.NewID(), auth.NewID()
	p.Issued = time.Now().Truncate(time.Second)
	p.Expires, p.RenewUntil = p.Issued.Add(life), p.Issued.Add(renewable)
	text, err := d.signer.Mint(p)
	if err != nil {
		return err
	}
	return os.WriteFile(d.Credentials(name), []byte(text+"\n"), 0o600)
}

// Configure writes the configuration of a server.
func (d *Deployment) Configure(s deployment.Shape) (file string, err error) {
	s.MaxStore = maxStore
	text, err := deployment.Config(d.keys.Deployment, d.public, s)
	if err != nil {
		return "", err
	}
	file = filepath.Join(d.dir, s.Server+".conf")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// Access is how to get to servers without a proxy, and to all that they keep.
type Access struct {
	URL string
	How []nats.Option
}

// Dial connects.
func (a Access) Dial(name string) (*nats.Conn, error) { return bus.Dial(a.URL, name, a.How...) }

// Administrator is how to connect so that everything may be read.
func (d *Deployment) Administrator(url string) Access {
	if d == nil {
		return Access{URL: url}
	}
	return Access{url, []nats.Option{nats.Nkey(d.public.Dispatcher, d.keys.Dispatcher.Sign)}}
}
