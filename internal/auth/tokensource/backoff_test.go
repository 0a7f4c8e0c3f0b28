package tokensource

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// try is one of somebody who connects: how long the server took, and whether it refused.
type try struct {
	took    time.Duration
	refused bool
}

// at is how a turnstile takes tries, until it lets nobody try any more.
func (o *office) at(life time.Duration, next func(n int) try) (pauses []time.Duration, err error) {
	door := ConnectBackoff{Source: o.bearer(o.file(o.token(life)))}
	for n := 0; n < 100 && err == nil; n++ {
		var pause time.Duration
		of := next(n)
		<-time.After(of.took)
		pause, err = door.Pause(of.refused, false)
		pauses = append(pauses, pause)
		<-time.After(pause)
	}
	return pauses, err
}

// Whoever is refused at once waits for longer and longer, and gives up after a minute of it.
func TestRefusedAtTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, began := newOffice(t), time.Now()
		pauses, err := o.at(time.Hour, func(n int) try { return try{2 * time.Millisecond, n > 0} })
		if took := time.Since(began); err == nil || took < GiveUp || took > GiveUp+time.Second {
			t.Fatalf("%v after %s", err, took)
		}
		if n := len(pauses); n > 10 || pauses[0] > time.Second || slices.Max(pauses) < 5*time.Second {
			t.Errorf("%v", pauses)
		}
	})
}

// A token that cannot be renewed any more is not shown again.
func TestRefusedForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		pauses, err := o.at(time.Second, func(n int) try {
			if n == 1 {
				return try{2 * time.Hour, false}
			}
			return try{time.Millisecond, n > 1}
		})
		if err == nil || len(pauses) != 3 {
			t.Errorf("%v, %v", pauses, err)
		}
	})
}

// While nobody is there who could refuse, it is tried all the time; and again after a refusal that was none.
func TestNobodyAtTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		pauses, err := o.at(24*time.Hour, func(n int) try {
			return try{2 * time.Second, n%5 > 0}
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, pause := range pauses {
			if pause > time.Second {
				t.Errorf("%v", pauses)
				break
			}
		}
	})
}

// A client without room for its connection tries less and less often, however long that lasts, and its token is not
// taken for refused.
func TestCrowdedAtTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, began := newOffice(t), time.Now()
		door := ConnectBackoff{Source: o.bearer(o.file(o.token(time.Hour)))}
		tries := 0
		for ; time.Since(began) < 10*GiveUp; tries++ {
			pause, err := door.Pause(false, true)
			if err != nil || door.Refused() != nil || door.Crowded() != (tries > 0) {
				t.Fatalf("after %d tries: %v, %v, crowded %t", tries, err, door.Refused(), door.Crowded())
			}
			<-time.After(pause)
		}
		if tries > 50 {
			t.Errorf("%d tries", tries)
		}
		for range certain {
			if _, err := door.Pause(true, false); err != nil {
				t.Fatal(err)
			}
		}
		if door.Crowded() || door.Refused() == nil {
			t.Error("the token was revoked meanwhile")
		}
		if door.Admitted(); door.Crowded() || door.Refused() != nil {
			t.Error("it is let in")
		}
	})
}
