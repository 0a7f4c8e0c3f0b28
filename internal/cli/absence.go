package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/dispatcher"
)

// Absence is the flag of a process with a dispatcher that says how long a pool may be empty.
type Absence struct{ Long time.Duration }

// Flags adds the flag to cmd.
func (a *Absence) Flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&a.Long, "pool-absence", dispatcher.DefaultPoolAbsence,
		"how long no executor of a pool may be alive before calls that wait for it end with S-TOOL-UNAVAILABLE, also ahead "+
			"of their deadline; a restart of the executors should be shorter")
}

// Check refuses a time in which executors that are well need not have been heard of. The error is an [ErrUsage].
func (a *Absence) Check(n *Node) error {
	if a.Long < n.lease {
		return Usagef("--pool-absence is %s: it is no shorter than --lease, %s, in which an executor may be silent",
			a.Long, n.lease)
	}
	return nil
}
