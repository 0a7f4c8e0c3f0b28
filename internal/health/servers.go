package health

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

// server holds those fields of a server's answer to VARZ that are checked.
type server struct {
	Host      string `json:"host"`
	TLS       bool   `json:"tls_required"`
	TLSVerify bool   `json:"tls_verify"`
	HTTPHost  string `json:"http_host"`
	HTTPPort  int    `json:"http_port"`
	HTTPSPort int    `json:"https_port"`

	MaxConnections int   `json:"max_connections"`
	MaxPayload     int64 `json:"max_payload"`
	MaxPending     int64 `json:"max_pending"`
	WriteDeadline  int64 `json:"write_deadline"` // nanoseconds

	Cluster struct {
		Addr string `json:"addr"`
		TLS  bool   `json:"tls_required"`
	} `json:"cluster"`
	Leaf      listener `json:"leaf"`
	Gateway   listener `json:"gateway"`
	MQTT      listener `json:"mqtt"`
	Websocket listener `json:"websocket"`
	JetStream struct {
		Config *struct {
			MaxStore   int64 `json:"max_storage"`
			SyncAlways bool  `json:"sync_always"`
		} `json:"config"`
		Stats *struct {
			Store    int64 `json:"storage"`
			Reserved int64 `json:"reserved_storage"`
		} `json:"stats"`
	} `json:"jetstream"`
}

// listener is the configuration of a listener that is not for NATS clients.
type listener struct {
	Port int `json:"port"`
}

// Want is the expected state of a deployment.
type Want struct {
	Profile string // "" if unknown
	Fsync   *bool  // whether the dispatcher runs with `--sync always`; nil if unknown
}

// silent is the fix if servers accept the key of the account SYS, and do not answer.
const silent = "it accepts connections: see its log, and restart it if it answers nothing else, either"

// Servers compares the servers and their accounts with the expected state, over a connection to the system account.
// Only that account can read how often servers sync.
func Servers(ctx context.Context, sys *nats.Conn, want Want) []envelope.Check {
	all, err := askServers[server](ctx, sys, 0, "VARZ", "")
	if err != nil {
		return []envelope.Check{envelope.Failed("servers", err.Error(), silent)}
	}
	slices.SortFunc(all, func(a, b told[server]) int { return cmp.Compare(a.Server.Name, b.Server.Name) })
	checks := []envelope.Check{number(len(all), want), syncing(all, want)}
	checks = append(checks, limited(all), listening(all), room(all), writes(ctx, sys, len(all)))
	return append(checks, walls(ctx, sys, len(all))...)
}

// number compares the number of servers with the profile.
func number(n int, want Want) envelope.Check {
	profile, err := deployment.ProfileNamed(want.Profile)
	switch {
	case err != nil:
		return envelope.Well("servers", fmt.Sprintf("%d; the deployment has no profile, so any number is right", n))
	case n < profile.Servers:
		return envelope.Failed("servers", fmt.Sprintf("%d answer, and profile %s has %d", n, profile.Name, profile.Servers),
			"start the others: see deploy/nats/README.md")
	case n > profile.Servers:
		return envelope.Doubtful("servers", fmt.Sprintf("%d answer, and profile %s has %d", n, profile.Name, profile.Servers),
			"stop those that `toolbus keys init` has not written")
	}
	return envelope.Well("servers", fmt.Sprintf("%d, as profile %s has", n, profile.Name))
}

// syncing checks whether servers sync each write if dispatchers or the profile require it.
func syncing(all []told[server], want Want) envelope.Check {
	lazy := names(all, func(s server) bool { return s.JetStream.Config == nil || !s.JetStream.Config.SyncAlways })
	profile, _ := deployment.ProfileNamed(want.Profile) // without a profile, nothing is expected
	const fix = "put sync_interval: always into the jetstream block of their configuration"
	counts := want.Fsync != nil && *want.Fsync
	switch {
	case lazy == "" && want.Fsync != nil && !counts:
		return envelope.Doubtful("sync", "each write is on disk before it is acknowledged, but dispatchers run without "+
			"--sync always: they refuse calls of side-effectful tools", "start dispatchers with --sync always")
	case lazy == "":
		return envelope.Well("sync", "each write is on disk before it is acknowledged")
	case counts:
		return envelope.Failed("sync", lazy+
			" acknowledge writes before they are on disk, and dispatchers run with --sync always",
			"start dispatchers without --sync always, or "+fix)
	case profile.SyncAlways:
		return envelope.Failed("sync", lazy+" acknowledge writes before they are on disk, which profile "+
			profile.Name+" promises not to", fix)
	}
	return envelope.Well("sync", lazy+" acknowledge writes before they are on disk: a power cut loses up to two "+
		"minutes, so dispatchers refuse calls of side-effectful tools; profile single-durable or durable admits them")
}

// limited compares the limits of servers with those of the template. Servers do not report the limits of accounts.
func limited(all []told[server]) envelope.Check {
	for _, l := range []struct {
		says string
		is   func(s server) bool
	}{
		{fmt.Sprintf("take fewer than %d connections, so that clients can leave none to dispatchers", auth.Connections),
			func(s server) bool { return s.MaxConnections < auth.Connections }},
		{fmt.Sprintf("let a client that does not read take up more than %d MiB, or for longer than %s",
			deployment.MaxPending>>20, deployment.WriteDeadline), func(s server) bool {
			return s.MaxPending > deployment.MaxPending || time.Duration(s.WriteDeadline) > deployment.WriteDeadline
		}},
		{"take messages of less than 1 MiB", func(s server) bool { return s.MaxPayload < 1<<20 }},
	} {
		if who := names(all, l.is); who != "" {
			return envelope.Failed("limits", who+" "+l.says,
				"write the configuration of the servers again with `toolbus keys servers DIR`; and see `toolbus doctor --config`")
		}
	}
	return envelope.Well("limits", "of connections, messages and slow clients are as `toolbus keys servers` writes them")
}

// listening checks for listeners that accept clients without tokens, or tokens without TLS.
func listening(all []told[server]) envelope.Check {
	for _, open := range []struct {
		says, fix string
		is        func(s server) bool
	}{
		{"take tokens in the clear from other machines", "give them TLS: `toolbus keys init --host`",
			func(s server) bool { return !own(s.Host) && !s.TLS }},
		{"let anybody try a token who reaches them", "put verify: true into their tls block",
			func(s server) bool { return s.TLS && !s.TLSVerify }},
		{"take servers of the cluster without a certificate, which may do everything", "give the cluster TLS with verify",
			func(s server) bool { return s.Cluster.Addr != "" && !own(s.Cluster.Addr) && !s.Cluster.TLS }},
		{"answer monitoring to everybody", "let http listen on loopback, or nowhere",
			func(s server) bool { return (s.HTTPPort != 0 || s.HTTPSPort != 0) && !own(s.HTTPHost) }},
		{"listen for leaf nodes, gateways, MQTT or WebSocket", "take these blocks out of their configuration",
			func(s server) bool { return s.Leaf.Port|s.Gateway.Port|s.MQTT.Port|s.Websocket.Port != 0 }},
	} {
		if who := names(all, open.is); who != "" {
			return envelope.Failed("listeners", who+" "+open.says, open.fix)
		}
	}
	return envelope.Well("listeners", "for clients"+map[bool]string{true: ", and servers of the cluster"}[len(all) > 1]+
		", with TLS beyond loopback, and nothing else")
}

// room checks how full the storage of the servers is.
func room(all []told[server]) envelope.Check {
	full := names(all, func(s server) bool {
		c, used := s.JetStream.Config, s.JetStream.Stats
		return c != nil && used != nil && used.Store > c.MaxStore/100*85
	})
	if full != "" {
		return envelope.Doubtful("room", full+" have over 85 % of max_file_store in use",
			"make room on the disk and raise max_file_store, or shorten what is kept")
	}
	var least int64 = -1
	for _, s := range all {
		if c := s.Data.JetStream.Config; c != nil && (least < 0 || c.MaxStore < least) {
			least = c.MaxStore
		}
	}
	return envelope.Well("room", fmt.Sprintf("streams use at most 85 %% of max_file_store, which is %d MiB or more on "+
		"each server", least>>20))
}

// names returns the names of the servers for which is returns true.
func names(all []told[server], is func(server) bool) string {
	var found []string
	for _, s := range all {
		if is(s.Data) {
			found = append(found, s.Server.Name)
		}
	}
	return strings.Join(found, ", ")
}

// own reports whether host, with or without a port, is a loopback address.
func own(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
