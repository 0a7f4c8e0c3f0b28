package deploy

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const (
	startTime = 15 * time.Second // in which a dispatcher answers, whatever is damaged
	endTime   = 5 * time.Second  // in which it ends after SIGTERM
)

// control is a deployment with a good token and a revoked one of each kind.
type control struct {
	*processtest.Deployment
	good            string
	revoked, barred string
	family          string
}

func newControl(t *testing.T) (c *control, dispatcher *processtest.Process) {
	t.Helper()
	d, all := dispatchers(t, 1)
	c = &control{Deployment: d}
	operator, _ := d.Credential(auth.Principal{Actor: "operator://o", Role: auth.Operator})
	_, c.good = d.Credential(auth.Principal{Actor: "agent://good", Role: auth.Agent})
	_, c.revoked = d.Credential(auth.Principal{Actor: "agent://a", Role: auth.Agent})
	_, c.barred = d.Credential(auth.Principal{Actor: "agent://b", Role: auth.Agent})
	p, err := auth.Inspect(c.revoked)
	if err != nil {
		t.Fatal(err)
	}
	c.family = p.Family
	for _, args := range [][]string{
		{"credentials", "revoke", c.family}, {"credentials", "revoke", "--actor", "agent://b"}, // exit 1: not listed
		{"lock", "--tool", "text.search", "--reason", "INC-7"},
	} {
		args = append(args, "--server", d.URL, "--credentials", operator)
		if out, err := exec.Command(d.Toolbus(), args...).CombinedOutput(); err != nil &&
			!strings.Contains(string(out), "is stored all the same") {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return c, all[0]
}

// dispatcher starts one, and waits until it lets the good token in. It lets no revoked one in.
func (c *control) dispatcher(t *testing.T) *processtest.Process {
	t.Helper()
	p := processtest.Start(t, "is serving", c.Toolbus(), "dispatcher", "--secrets-dir", filepath.Join(c.Dir, "keys"),
		"--server", c.URL, "--tools", c.Tools)
	c.admits(t)
	return p
}

func (c *control) admits(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	err := timer.Backoff{Pause: 50 * time.Millisecond}.Until(ctx, func(context.Context) (bool, error) {
		c.refuses(t)
		nc, err := nats.Connect(c.URL, nats.Token(c.good))
		if err == nil {
			nc.Close()
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatal("the good token:", err)
	}
	c.refuses(t)
}

func (c *control) refuses(t *testing.T) {
	t.Helper()
	for _, token := range []string{c.revoked, c.barred} {
		if nc, err := nats.Connect(c.URL, nats.Token(token)); err == nil {
			nc.Close()
			t.Fatal("a revoked token is let in")
		}
	}
}

// damage flips a bit of an entry of the control bucket while the server is stopped.
func (c *control) damage(t *testing.T, entry string) {
	t.Helper()
	c.Servers[0].Terminate(t, endTime)
	err := filepath.WalkDir(c.Dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(path, subjects.ControlStream) || filepath.Ext(path) != ".blk" {
			return err
		}
		data, err := os.ReadFile(path)
		if at := bytes.LastIndex(data, []byte(entry)); at >= 0 {
			data[at+len(entry)+12] ^= 4
			t.Logf("%s: %d", path, at)
			return os.WriteFile(path, data, 0o600)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Serve(0)
}

// Whatever entry of the control bucket is damaged, dispatchers start and end in time, let good tokens in, and no
// revoked ones.
func TestDamagedControl(t *testing.T) {
	c, running := newControl(t)
	good, err := auth.Inspect(c.good)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range []string{
		subjects.Locks, subjects.Revoked(c.family), subjects.RevokedActor("default", "agent://b"),
		subjects.SigningKey(good.KeyID),
	} {
		c.damage(t, entry)
		c.admits(t)
		running.Terminate(t, endTime)
		running = c.dispatcher(t)
	}
	running.Terminate(t, endTime)
}

// While the control bucket is gone nothing is let in, and dispatchers end in time. One that starts then restores it.
func TestControlIsGone(t *testing.T) {
	c, running := newControl(t)
	for _, stopped := range []bool{false, true} {
		if stopped {
			running.Terminate(t, endTime)
		}
		c.remove(t)
		if !stopped {
			c.refuses(t)
			running.Terminate(t, endTime)
		}
		running = c.dispatcher(t)
	}
}

// remove deletes the control bucket.
func (c *control) remove(t *testing.T) {
	t.Helper()
	public, err := c.Keys.Dispatcher.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(c.URL, nats.Nkey(public, c.Keys.Dispatcher.Sign))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		err = js.DeleteStream(t.Context(), subjects.ControlStream)
	}
	if err != nil {
		t.Fatal(err)
	}
}
