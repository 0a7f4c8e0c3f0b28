package deployment

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"text/template"

	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// Shape is what one server is, beside its accounts.
type Shape struct {
	Server     string // its name; of a cluster each has its own
	Listen     string // for clients: host:port; beyond loopback it takes TLS
	Store      string // folder of its streams
	SyncAlways bool   // every write is on disk before it is acknowledged
	MaxStore   int64  // bytes that streams may reserve; 0 is three quarters of what is free on the disk
	Monitor    string // host:port on loopback, for HTTP; "" is none
	TLS        *TLS
	Cluster    *Cluster // nil is a server by itself
	Log        string   // file of its log; "" is standard error
}

// TLS are files for encrypted connections.
type TLS struct {
	Cert, Key string
	CA        string // clients must have a certificate of it; "" lets in those without. Servers of a cluster need it
}

// Cluster says with which servers one replicates its streams.
type Cluster struct {
	Listen string   // for the other servers: host:port; beyond loopback it takes TLS with CA
	Routes []string // where all of them listen for each other: nats://host:port
	TLS    *TLS
}

//go:embed server.conf.tmpl
var serverText string

// Config returns the configuration of a server, which is the same text wherever the server runs.
func Config(deployment string, keys Public, s Shape) (string, error) {
	if err := s.check(); err != nil {
		return "", fmt.Errorf("server %s: %w", s.Server, err)
	}
	parsed, err := template.New("server").Funcs(template.FuncMap{"quote": strconv.Quote}).Parse(serverText)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = parsed.Execute(&text, struct {
		Shape
		Keys struct {
			Public
			Deployment string
		}
		Services []auth.ServiceExport
		Said     []auth.StreamExport // by TB
		Heard    []auth.StreamExport // by TB
		Guests   []auth.ClientAccount
		Limits   limits
	}{
		Shape: s, Limits: theLimits(), Services: auth.ServiceExports(), Guests: auth.ClientAccounts(),
		Keys: struct {
			Public
			Deployment string
		}{keys, deployment},
		Said: auth.StreamsFrom(auth.TB), Heard: auth.StreamsTo(auth.TB),
	})
	return text.String(), err
}

func (s Shape) check() error {
	switch {
	case s.Server == "" || s.Store == "":
		return errors.New("a server has a name and a folder for its streams")
	case s.TLS == nil && !loopback(s.Listen):
		return fmt.Errorf("tokens cross %s in the clear: give it TLS, or a loopback address", s.Listen)
	case s.Monitor != "" && !loopback(s.Monitor):
		return fmt.Errorf("monitoring at %s answers everybody: give it a loopback address", s.Monitor)
	case s.Cluster == nil || loopback(s.Cluster.Listen):
		return nil
	case s.Cluster.TLS == nil || s.Cluster.TLS.CA == "":
		return fmt.Errorf("whoever reaches %s may do everything: give it TLS with an authority", s.Cluster.Listen)
	}
	return nil
}

// loopback reports whether nobody else reaches an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
