package attack

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/accounts"
	"github.com/seed-018f16cc/toolbus/identity"
)

// floods is a deployment of processes of their own, whose memory and log are measured: one server of the official
// program, with the configuration that `toolbus keys init` writes, and a dispatcher.
type floods struct {
	*testing.T
	programs, dir, url string
	keys               *accounts.Keys
	server, dispatcher *process
}

// flooded starts the deployment.
func flooded(t *testing.T) *floods {
	t.Helper()
	f := &floods{T: t, programs: t.TempDir(), dir: filepath.Join(t.TempDir(), "deployment")}
	run(t, "go", "-C", "../..", "build", "-o", f.programs, "./cmd/toolbus", "github.com/nats-io/nats-server/v2")
	host := freeHost(t)
	f.url = "nats://" + host
	run(t, f.program("toolbus"), "keys", "init", f.dir, "--host", host)
	var err error
	f.keys, err = accounts.Load(filepath.Join(f.dir, "keys"))
	f.ok(err)
	for tool, program := range map[string]string{
		"text_2esearch": "text-search", "fs_2ewrite": "fs-write", "web_2efetch": "web-fetch",
	} { // which are described, and not called
		folder := filepath.Join(f.dir, "tools", tool)
		f.ok(os.CopyFS(folder, os.DirFS(filepath.Join("../../tools", tool))))
		f.ok(os.WriteFile(filepath.Join(folder, program), nil, 0o755))
	}
	conf := filepath.Join(f.dir, "nats-1.conf")
	text, err := os.ReadFile(conf)
	f.ok(err)
	f.ok(os.WriteFile(conf, []byte(strings.Replace(string(text), "jetstream {", // the disk of the test may be small
		"jetstream {\n  max_file_store: 1TB", 1)), 0o600))
	f.server = start(t, f.program("nats-server"), "-c", conf)
	f.await(func() bool {
		conn, err := net.Dial("tcp", host)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	f.dispatcher = f.dispatch()
	return f
}

func (f *floods) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *floods) program(name string) string { return filepath.Join(f.programs, name) }

// await waits until something is so.
func (f *floods) await(is func() bool) {
	f.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			f.Fatal("it does not come about within a minute")
		}
	}
}

// dispatch starts a dispatcher and returns when it serves.
func (f *floods) dispatch() *process {
	f.Helper()
	p := start(f.T, f.program("toolbus"), "dispatcher", "--server", f.url, "--keys", filepath.Join(f.dir, "keys"),
		"--tools", filepath.Join(f.dir, "tools"))
	f.await(func() bool { return p.ended() || strings.Contains(p.output(), "is serving") })
	if p.ended() {
		f.Fatal(p.output())
	}
	return p
}

// agent returns a new credential of an agent.
func (f *floods) agent() (p identity.Principal, token string) {
	f.Helper()
	signer, err := f.keys.Signer()
	f.ok(err)
	p = identity.Principal{
		Tenant: "evil", Actor: mallory, Role: identity.Agent, Scopes: []string{identity.ScopeAll}, ID: identity.NewID(),
		Family: identity.NewID(), Issued: time.Now().Truncate(time.Second), Expires: time.Now().Add(time.Hour),
	}
	token, err = signer.Mint(p)
	f.ok(err)
	return p, token
}

// logged is how many bytes the log of the server has on disk.
func (f *floods) logged() (bytes int64) {
	f.Helper()
	if info, err := os.Stat(f.server.said); err == nil {
		bytes = info.Size() // of a server without a log file
	}
	f.ok(filepath.WalkDir(f.dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && strings.Contains(e.Name(), ".log") {
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil // files come and go
	}))
	return bytes
}

// within checks what the processes take up now, in MiB above idle for the server.
func (f *floods) within(idle int) {
	f.Helper()
	server, dispatcher := f.server.peak(), f.dispatcher.peak()
	f.Logf("server %d MiB, idle %d; dispatcher %d MiB", server, idle, dispatcher)
	if server-idle > 1024 {
		f.Errorf("the server takes up %d MiB more than when it is idle", server-idle)
	}
	if dispatcher > 300 {
		f.Errorf("the dispatcher takes up %d MiB", dispatcher)
	}
}

// One token opens ten thousand connections, as fast as it can. Few of them last, and a dispatcher can connect.
func TestConnectionFlood(t *testing.T) {
	onlyLong(t)
	f := flooded(t)
	_, token := f.agent()
	idle, begun := f.server.peak(), time.Now()
	var mu sync.Mutex
	var open []*rawConn
	var flood sync.WaitGroup
	for range 100 {
		flood.Go(func() {
			for range 100 {
				c, err := rawConnect(rawOptions{url: f.url, token: token})
				if err == nil {
					go c.listen()
					mu.Lock()
					open = append(open, c)
					mu.Unlock()
				}
			}
		})
	}
	f.dispatch()
	needed := time.Since(begun)
	flood.Wait()
	t.Logf("10,000 connections were tried in %s; a dispatcher needed %s meanwhile", time.Since(begun), needed)
	last := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			select {
			case <-c.done:
			default:
				n++
			}
		}
		return n
	}
	t.Logf("%d were let in, %d last", len(open), last())
	f.await(func() bool { return last() <= 300 })
	at := time.Now()
	f.dispatch()
	t.Logf("a dispatcher needed %s then", time.Since(at))
	f.within(idle)
	for _, c := range open {
		_ = c.conn.Close()
		<-c.done
	}
}

// Forty connections never read what they asked for.
func TestReaderFlood(t *testing.T) {
	onlyLong(t)
	f := flooded(t)
	p, token := f.agent()
	idle := f.server.peak()
	sub := accounts.Permissions(p, accounts.Facts{}).Sub.Allow
	answers := sub[slices.IndexFunc(sub, func(s string) bool { return strings.HasPrefix(s, "tb.ans.") })]
	over := time.Now().Add(20 * time.Second)
	deaf := make([]*rawConn, 40)
	renew := func(i int) {
		c, err := rawConnect(rawOptions{url: f.url, token: token})
		if err == nil {
			err = c.send("SUB " + answers + " 1\r\n")
		}
		f.ok(err)
		deaf[i] = c
	}
	for i := range deaf {
		renew(i)
		t.Cleanup(func() { _ = deaf[i].conn.Close() })
	}
	subject := "tb.svc.describe." + strings.Join(strings.Split(answers, ".")[2:4], ".")
	var asking sync.WaitGroup
	var asked atomic.Int64
	for range 4 {
		c := rawDial(t, rawOptions{url: f.url, token: token})
		asking.Go(func() {
			for n := 0; time.Now().Before(over); n++ {
				reply := strings.TrimSuffix(answers, ">") + fmt.Sprint("x", n)
				word := strings.Join(strings.Split(reply, ".")[4:], ".")
				err := c.publish(subject, reply, rawHeader("Tb-Answer: "+word, "Tb-Token: "+token), `{}`)
				if n%100 == 99 && err == nil {
					err = c.flush()
				}
				if err != nil {
					return // it hears no answers either, and is closed
				}
				asked.Add(1)
			}
		})
	}
	asking.Wait()
	t.Logf("%d questions", asked.Load())
	if f.dispatcher.ended() {
		t.Error(f.dispatcher.output())
	}
	f.within(idle)
}

// Forty connections send calls that are as large as calls may be, and no calls.
func TestCallFlood(t *testing.T) {
	onlyLong(t)
	f := flooded(t)
	_, token := f.agent()
	idle, over := f.server.peak(), time.Now().Add(15*time.Second)
	text := rawPublish("tb.call.evil.agent_3a_2f_2fmallory.x", "tb.ans.evil.agent_3a_2f_2fmallory.x.y",
		rawHeader("Tb-Token: "+token), strings.Repeat("x", 500<<10))
	var sending sync.WaitGroup
	var sent atomic.Int64
	for range 40 {
		sending.Go(func() {
			for time.Now().Before(over) {
				c, err := rawConnect(rawOptions{url: f.url, token: token})
				if err != nil {
					continue
				}
				go c.listen()
				for time.Now().Before(over) && c.send(text) == nil {
					sent.Add(1)
				}
				_ = c.conn.Close()
				<-c.done
			}
		})
	}
	sending.Wait()
	said := f.dispatcher.output()
	t.Logf("%d calls of 500 KiB; the dispatcher lost its connection %d times", sent.Load(),
		strings.Count(said, "connection to the bus lost"))
	if f.dispatcher.ended() {
		t.Error(said)
	}
	f.within(idle)
}

// One connection sends what it may not, for 28 seconds, and comes back when it is closed.
func TestViolationFlood(t *testing.T) {
	onlyLong(t)
	for name, line := range map[string]string{
		"publish": "PUB tb.call.acme.x.y 0\r\n\r\n", "subscribe": "SUB tb.call.> 1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := flooded(t)
			_, token := f.agent()
			idle, begun, before := f.server.peak(), time.Now(), f.logged()
			text := strings.Repeat(line, 1000)
			var sent, closed int
			var most int64
			for time.Since(begun) < 28*time.Second {
				c, err := rawConnect(rawOptions{url: f.url, token: token})
				if err != nil {
					continue
				}
				go c.listen()
				for time.Since(begun) < 28*time.Second && c.send(text) == nil {
					sent += 1000
				}
				most = max(most, f.logged())
				_ = c.conn.Close()
				<-c.done
				closed++
			}
			all := f.logged() - before
			t.Logf("%d refused messages, %d connections, %d bytes of log on disk at the end, %.1f MB/s", sent, closed, all,
				float64(all)/1e6/time.Since(begun).Seconds())
			f.within(idle)
		})
	}
}
