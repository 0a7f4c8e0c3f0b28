package app

import (
	"cmp"
	"strconv"

	"github.com/seed-018f16cc/toolbus/internal/dispatcher/admission"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
)

// settings returns the settings that all dispatchers of a bus must have alike, by flag.
func (d *dispatcherProcess) settings() map[string]string {
	o, sync := d.options, "interval"
	if d.Fsync {
		sync = "always"
	}
	return map[string]string{
		"--sync":            sync,
		"--lease":           d.Lease.String(),
		"--default-role":    cmp.Or(o.DefaultRole, check.DefaultRole),
		"--default-lane":    cmp.Or(o.DefaultLane, check.DefaultLane),
		"--open-per-actor":  strconv.Itoa(cmp.Or(o.OpenPerActor, admission.DefaultOpenPerActor)),
		"--open-per-tenant": strconv.Itoa(cmp.Or(o.OpenPerTenant, admission.DefaultOpenPerTenant)),
		"--overflow-after":  strconv.Itoa(cmp.Or(o.OverflowAfter, admission.DefaultOverflowAfter)),
	}
}
