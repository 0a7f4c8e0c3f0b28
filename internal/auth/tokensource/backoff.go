package tokensource

import (
	"math/rand/v2"
	"sync"
	"time"
)

// ConnectBackoff computes the pauses between attempts of a client to connect. If a dispatcher refused the token, which
// takes milliseconds, the token was revoked or has expired: the client waits longer after each attempt, and gives up
// after [GiveUp], or at once if the token can no longer be renewed. If a limit of connections is reached, the client
// also waits longer after each attempt, but does not give up. If no dispatcher answered, for which the server waits 2
// s, the client retries soon. It is safe for concurrent use.
type ConnectBackoff struct {
	Source *Source

	mu      sync.Mutex
	tried   time.Time // when the last attempt began
	vain    int       // attempts in a row that were refused for the same reason
	crowded bool      // the reason is a limit of connections, not the token
	since   time.Time // the time of the first of them
}

const (
	// answered is the longest time of a refusal that counts as one by a dispatcher. If no dispatcher answers, the server
	// refuses after twice that time.
	answered = time.Second
	// retry is the pause before a lost connection is opened again. Up to half as much is added at random.
	retry = 100 * time.Millisecond
	// firstRefused is the pause after the second refusal in a row. Each further one doubles it, up to maxRefused. A random
	// part of up to a quarter is added or subtracted.
	firstRefused = time.Second
	maxRefused   = 30 * time.Second
	// GiveUp is how long after the first of several refusals in a row a client stops connecting.
	GiveUp = time.Minute
)

// certain is the number of refusals in a row from which on a connection counts as refused.
const certain = 2

// Refused returns a *[RenewalError] if the last two or more attempts were refused because of the token. Otherwise, and
// after Admitted, it returns nil.
func (t *ConnectBackoff) Refused() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.vain < certain || t.crowded {
		return nil
	}
	return t.Source.Denied()
}

// Crowded reports whether the last two or more attempts were refused because of a limit of connections. It is false
// after Admitted.
func (t *ConnectBackoff) Crowded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.vain >= certain && t.crowded
}

// Admitted records that the server has accepted a connection.
func (t *ConnectBackoff) Admitted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.vain = 0
}

// Pause records the result of an attempt and returns the time to wait before the next one. refused means that the
// server refused the token, crowded that a limit of connections is reached; neither, that the attempt failed otherwise.
// It returns an error, the reason, if the client must not try again.
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
	if refused {
		pause = min(pause, GiveUp-now.Sub(t.since)) // the last attempt is the one after which the client gives up
	}
	t.tried = now.Add(pause)
	return pause, nil
}
