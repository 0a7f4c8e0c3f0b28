package health

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// account is the answer of a server to ACCOUNTZ.
type account struct {
	Detail *struct {
		JetStream bool `json:"jetstream_enabled"`
		Imports   []struct {
			Subject string `json:"subject"`
			Local   string `json:"local_subject"`
			From    string `json:"account"`
			Type    string `json:"type"`
		} `json:"imports"`
	} `json:"account_detail"`
}

// system is the system account. All other accounts may import some services from it.
const system = "SYS"

// walls compares the imports of the accounts with those in the configuration that `toolbus keys init` writes. It also
// checks for connections without a token. known is the number of servers.
func walls(ctx context.Context, sys *nats.Conn, known int) []envelope.Check {
	want := auth.Imports()
	var missing, extra []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		servers, err := askServers[account](ctx, sys, known, "ACCOUNTZ", fmt.Sprintf(`{"account":%q}`, name))
		if err != nil {
			return []envelope.Check{envelope.Failed("accounts", err.Error(), "run doctor again: servers came or went")}
		}
		for _, s := range servers {
			lacks, has := s.Data.differs(name, want[name])
			missing, extra = append(missing, prefixed(name+" of "+s.Server.Name+" lacks ", lacks)...),
				append(extra, prefixed(name+" of "+s.Server.Name+" has ", has)...)
		}
	}
	checks := []envelope.Check{}
	const fix = "write the configuration of the servers again with `toolbus keys servers DIR`, and restart them"
	if len(missing) > 0 {
		checks = append(checks, envelope.Failed("rights missing", some(missing), fix))
	}
	if len(extra) > 0 {
		checks = append(checks, envelope.Failed("rights too many", some(extra), fix))
	}
	if len(checks) == 0 {
		checks = append(checks, envelope.Well("accounts", "each reaches what it should of the others, and no more"))
	}
	return append(checks, strangers(ctx, sys, known))
}

// differs returns the imports that an account lacks, and those that it has in addition.
func (a account) differs(name string, want []string) (missing, extra []string) {
	if a.Detail == nil {
		return []string{"everything: there is no such account"}, nil
	}
	have := map[string]bool{}
	for _, i := range a.Detail.Imports {
		if i.From != system {
			have[auth.ImportLine(i.Type, i.Subject, i.From)] = true
		}
	}
	if a.Detail.JetStream && name != auth.TB {
		extra = append(extra, "streams of its own")
	}
	for _, line := range want {
		if !have[line] {
			missing = append(missing, line)
		}
		delete(have, line)
	}
	return missing, append(extra, slices.Sorted(maps.Keys(have))...)
}

// connections holds those fields of a server's answer to CONNZ that are checked.
type connections struct {
	Connections []struct {
		Name    string `json:"name"`
		Account string `json:"account"` // "" until the client is authenticated
		User    string `json:"authorized_user"`
	} `json:"connections"`
}

// strangers checks the accounts for clients with tokens for connections that the auth callout has not named.
func strangers(ctx context.Context, sys *nats.Conn, known int) envelope.Check {
	all, err := askServers[connections](ctx, sys, known, "CONNZ", `{"auth":true}`)
	if err != nil {
		return envelope.Failed("connections", err.Error(), "run doctor again: servers came or went")
	}
	return opened(all)
}

// opened checks that tokens have opened all authenticated connections in the accounts for clients.
func opened(all []told[connections]) envelope.Check {
	var unknown []string
	for _, s := range all {
		for _, c := range s.Data.Connections {
			_, token := auth.ParseUser(c.User)
			if !token && !slices.Contains([]string{"", auth.TB, "AUTH", system}, c.Account) {
				unknown = append(unknown, fmt.Sprintf("%.60q in %s as %.60q", c.Name, c.Account, c.User))
			}
		}
	}
	if len(unknown) > 0 {
		return envelope.Failed("connections", "no token has opened "+some(unknown),
			"take their users out of the servers' configuration, and out of auth_users: tokens alone lead to these accounts")
	}
	return envelope.Well("connections", "all were opened by a key of the deployment or a token")
}

func prefixed(with string, all []string) (out []string) {
	for _, s := range all {
		out = append(out, with+s)
	}
	return out
}

// maxNamed is the largest number of items in the text of a check.
const maxNamed = 6

func some(all []string) string {
	if more := len(all) - maxNamed; more > 0 {
		return strings.Join(all[:maxNamed], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(all, "; ")
}
