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

// Shape configures one server, without its accounts.
type Shape struct {
	Server     string // server name, unique in its cluster
	Listen     string // host:port for clients; an address that is not loopback requires TLS
	Store      string // folder for JetStream
	SyncAlways bool   // the server syncs each write before it acknowledges it
	MaxStore   int64  // limit of file storage in bytes; 0 is the server's default: 3/4 of the free disk space
	Monitor    string // host:port on loopback for HTTP monitoring; "" disables it
	TLS        *TLS
	Cluster    *Cluster // nil is a server without a cluster
	Log        string   // log file; "" is standard error
}

// TLS holds the paths of the files for encrypted connections.
type TLS struct {
	Cert, Key string
	CA        string // clients must have a certificate of it; "" requires none; routes beyond loopback need it
}

// Cluster configures the routes to the servers with which a server replicates its streams.
type Cluster struct {
	Listen string   // host:port for routes; an address that is not loopback requires TLS with CA
	Routes []string // route addresses of all servers: nats://host:port
	TLS    *TLS
}

//go:embed server.conf.tmpl
var serverText string

// Config returns the configuration file of a server. The text does not depend on the machine that calls it.
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
		Said     []auth.StreamExport // exported by TB
		Heard    []auth.StreamExport // imported by TB
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

// loopback reports whether the host of address is a loopback address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
