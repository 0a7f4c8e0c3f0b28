package natstest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// StartCluster starts n servers with replicated streams, and waits until they have a leader. The URL of each server
// lists all of them.
func StartCluster(t testing.TB, n int, options ...Option) []*Server {
	t.Helper()
	var ports []int
	var routes []*url.URL
	for i := range n {
		ports = append(ports, hold(t))
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[i])})
	}
	var servers []*Server
	var urls []string
	for i, port := range ports {
		s := prepare(t, append(slices.Clone(options), func(o *server.Options) {
			o.ServerName = fmt.Sprint("natstest-", i+1)
			o.Cluster = server.ClusterOpts{Name: "natstest", Host: "127.0.0.1", Port: port}
			o.Routes = routes
		}))
		s.start()
		servers, urls = append(servers, s), append(urls, s.srv.ClientURL())
	}
	for _, s := range servers {
		s.URL = strings.Join(urls, ",")
	}
	awaitLeader(t, servers)
	return servers
}

// Name returns the name of the server in its cluster.
func (s *Server) Name() string { return s.opts.ServerName }

func awaitLeader(t testing.TB, servers []*Server) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(startTimeout); ; {
		for _, s := range servers {
			if s.srv.JetStreamIsLeader() && len(s.srv.JetStreamClusterPeers()) == len(servers) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("natstest: %d servers have no leader within %v", len(servers), startTimeout)
		}
	}
}
