package admin

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// rewrite is the hint for a failed check of limits.
const rewrite = "write the configuration of the servers again with `toolbus keys servers DIR`, and restart them"

// Configuration checks the limits in the configuration file of a NATS server: connections of accounts, slow clients and
// the size of the log. A running server does not report them. It also checks whether the server syncs each write, if
// the profile of the deployment requires that; profile may be "". Files that the configuration includes must exist.
func Configuration(file, profile string) []Check {
	name := filepath.Base(file)
	l, err := natsserver.ReadLimits(file)
	if err != nil {
		return []Check{envelope.Failed("configuration", name+": "+err.Error(),
			"run doctor where the server runs, as its user")}
	}
	checks := []Check{accountLimits(l, name), slowClients(l, name), serverLog(l, name)}
	p, _ := deployment.ProfileNamed(profile) // without a profile, nothing is expected
	switch {
	case p.SyncAlways && !l.SyncAlways:
		return append(checks, envelope.Failed("sync", name+" lets the server acknowledge writes before they are on disk, "+
			"which profile "+p.Name+" promises not to", "put sync_interval: always into its jetstream block"))
	case p.SyncAlways:
		return append(checks, envelope.Well("sync", name+": each write is on disk before it is acknowledged"))
	}
	return checks
}

// accountLimits checks that the accounts for tokens leave enough connections to dispatchers.
func accountLimits(l natsserver.Limits, name string) Check {
	all, unbounded := 0, []string(nil)
	for _, of := range []string{auth.Agents, auth.Exec, auth.Auditors} {
		if l.Accounts[of] <= 0 {
			unbounded = append(unbounded, of)
		}
		all += l.Accounts[of]
	}
	left := l.Connections - all
	switch {
	case len(unbounded) > 0:
		return envelope.Failed("account limits", name+" does not limit the connections of "+strings.Join(unbounded, ", "),
			rewrite)
	case left < auth.Reserved:
		return envelope.Failed("account limits", fmt.Sprintf("%s: of %d connections the accounts for tokens may have %d; "+
			"dispatchers need %d", name, l.Connections, all, auth.Reserved), rewrite)
	}
	return envelope.Well("account limits", fmt.Sprintf("%s leaves %d connections to dispatchers", name, left))
}

func slowClients(l natsserver.Limits, name string) Check {
	if l.Pending > deployment.MaxPending || l.WriteDeadline > deployment.WriteDeadline {
		return envelope.Failed("slow clients", fmt.Sprintf("%s lets a client that does not read take up more than "+
			"%d MiB, or for longer than %s", name, deployment.MaxPending>>20, deployment.WriteDeadline), rewrite)
	}
	return envelope.Well("slow clients", fmt.Sprintf("%s: one that does not read takes up %d MiB", name, l.Pending>>20))
}

func serverLog(l natsserver.Limits, name string) Check {
	switch {
	case l.Log == "":
		return envelope.Well("server log", name+" logs to standard error: what reads it there must bound it")
	case l.LogBytes <= 0 || l.LogFiles <= 0:
		return envelope.Failed("server log", name+" does not limit its log: by messages that are refused a client can fill "+
			"the disk", "set logfile_size_limit and logfile_max_num")
	}
	return envelope.Well("server log", fmt.Sprintf("%s: at most %d files of %d MiB", name, l.LogFiles, l.LogBytes>>20))
}
