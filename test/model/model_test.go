package model

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
)

func TestTry(t *testing.T) {
	se := Config{Class: call.SideEffectful, Asks: "AAB", Endings: []Ending{Success, Refused, Unsure}, Deliveries: 2, Watches: 1, Cancels: 1, Ticks: 1, Crashes: 1}
	id := se
	id.Class = call.Idempotent
	x := se
	x.Asks = "AX"
	lost := se
	lost.Asks, lost.Lost, lost.Crashes = "AB", 1, 0
	exp := se
	exp.Asks, exp.Expiries = "AX", 1
	poison := Config{Class: call.Idempotent, Asks: "A", Endings: []Ending{Success}, Deliveries: 7, Crashes: 7, Poison: true}
	old := Config{Class: call.Idempotent, Asks: "A", Endings: []Ending{Success, Refused}, Deliveries: 2, Watches: 1, Ticks: 2, Due: 2, Crashes: 1, Recreates: 1}
	for _, c := range []struct {
		n string
		r Rule
		c Config
	}{
		{"ClaimInLog", ClaimInLog, se},
		{"Fingerprint", Fingerprint, x},
		{"Binding", Binding, se},
		{"AdmissionCAS", AdmissionCAS, se},
		{"FreshSequence", FreshSequence, se},
		{"ConfirmOnly", ConfirmOnly, se},
		{"AdmissionFence", AdmissionFence, exp},
		{"OwnNonce", OwnNonce, lost},
		{"LiveClaim", LiveClaim, se},
		{"ClaimFirst", ClaimFirst, se},
		{"ClaimSecond", ClaimSecond, id},
		{"ClaimOld", ClaimOld, old},
		{"CountClaims", CountClaims, poison},
		{"PhaseEffect", PhaseEffect, se},
		{"JointEffect", JointEffect, id},
		{"FinalStays", FinalStays, se},
		{"OwnAttempt", OwnAttempt, se},
		{"-", 0, exp},
		{"-", 0, old},
		{"-", 0, poison},
		{"-", 0, x},
		{"-", 0, lost},
		{"-", 0, id},
	} {
		began := time.Now()
		c.c.Off = c.r
		c.c.Promises = c.r != 0
		r := Explore(c.c)
		t.Logf("%s: %d states, depth %d, %v, %s\n%s", c.n, r.States, r.Depth, time.Since(began), r.Bad, strings.Join(r.Trace, "\n"))
	}
}
