package tokensource

import (
	"math/rand/v2"
	"sync"
	"time"
)

// ConnectBackoff says how often a client tries to connect that the server does not let in. Where dispatchers have
// refused the token, which takes milliseconds, it was revoked, or has ended: another try would be as vain as the last.
// Where a bound of connections is reached, the client tries less and less often, and does not give up. Where no
// dispatcher has answered, which takes two seconds, every moment counts. It is safe for concurrent use.
type ConnectBackoff struct {
	Source *Source

	mu      sync.Mutex
	tried   time.Time // when the last try began
	vain    int       // tries in a row that were refused, for the same reason
	crowded bool      // which is a bound of connections, and not the token
	since   time.Time // the first of them
}

const (
	// answered is how long a refusal takes at the most that is a dispatcher's: a server waits for twice as long.
	answered = time.Second
	// retry is when a connection that was lost is made anew, and half as much is random.
	retry = 100 * time.Millisecond
	// firstRefused is the pause after the second refusal in a row. Each further one doubles it, up to maxRefused; a
	// quarter more, or less, is random.
	firstRefused = time.Second
	maxRefused   = 30 * time.Second
	// GiveUp is after how long of refusals alone nobody tries any more.
	GiveUp = time.Minute
)

// certain is the number of refusals in a row from which on a connection counts as refused. One may be an accident.
const certain = 2

// Refused returns the reason why the last tries were refused, an error of type [RenewalError]; nil if they were not, or
// since Admitted.
func (t *ConnectBackoff) Refused() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.vain < certain || t.crowded {
		return nil
	}
	return t.Source.Denied()
}

// Crowded reports whether the server refused the last tries, at least two, for a bound of connections. It is false
// after Admitted.
func (t *ConnectBackoff) Crowded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.vain >= certain && t.crowded
}

// Admitted notes that the server has accepted a connection.
func (t *ConnectBackoff) Admitted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.vain = 0
}

// Pause returns the time to wait before the next try, after one that the server has refused, or refused for a bound of
// connections (crowded), or after anything else. It returns an error, the reason, if there is to be none.
func (t *ConnectBackoff) Pause(refused, crowded bool) (pause time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	refused = refused && now.Sub(t.tried) < answered
	if t.crowded != crowded {
		t.vain, t.crowded = 0, crowded
	}
	switch {
	case !refused && !crowded:
		t.vain = 0
	case t.vain == 0:
		t.vain, t.since = 1, now
	default:
		t.vain++
	}
	if refused && (t.Source.Spent() || now.Sub(t.since) >= GiveUp) {
		return 0, t.Source.Denied()
	}
	if t.vain < certain {
		pause = retry + rand.N(retry/2)
	} else {
		pause = min(firstRefused<<min(t.vain-certain, 10), maxRefused)
		pause += rand.N(pause/2) - pause/4
	}
	t.tried = now.Add(pause)
	return pause, nil
}
