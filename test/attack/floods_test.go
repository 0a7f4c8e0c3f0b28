package attack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientlib "github.com/seed-018f16cc/toolbus/internal/client"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/callout"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// connect opens as many connections of one token as the servers take. A dispatcher, an executor and another agent
// connect meanwhile. Few of the connections last.
func (s *siege) connect(context.Context) string {
	s.Helper()
	var open sync.Map
	var tried, taken atomic.Int64
	var opening sync.WaitGroup
	for range 32 {
		opening.Go(func() {
			for tried.Add(1) <= int64(s.connections) {
				if c, err := s.raw(s.attacker, "one of many"); err == nil {
					taken.Add(1)
					open.Store(c, true)
					go func() {
						c.listen()
						open.Delete(c)
					}()
				}
			}
		})
	}
	if *builds == "" {
		s.startDispatcher().Kill()
		s.startExecutor("default").Kill()
		s.agent("agent://late")
	}
	opening.Wait()
	if *builds == "" {
		s.eventually("few connections of one token last", func() bool {
			return entries(&open) <= callout.FamilyConnections
		})
	}
	last := entries(&open)
	open.Range(func(c, _ any) bool {
		_ = c.(*rawConn).conn.Close()
		<-c.(*rawConn).done
		return true
	})
	return fmt.Sprintf("%d of %d let in, %d last", taken.Load(), s.connections, last)
}

func entries(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// eventually waits until something is true.
func (s *siege) eventually(what string, is func() bool) {
	s.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); !is(); {
		select {
		case <-tick.C:
		case <-late:
			s.Fatalf("not within a minute: %s", what)
		}
	}
}

// neverRead has answers and chunks come to connections that never read.
func (s *siege) neverRead(ctx context.Context) string {
	s.Helper()
	for range s.readers {
		c, err := s.raw(s.attacker, "reader")
		s.must(err)
		if tcp, ok := c.conn.(*net.TCPConn); ok {
			s.must(tcp.SetReadBuffer(4096))
		}
		s.must(c.subscribe(answers() + ">"))
		s.must(c.subscribe("tb.chunk.default." + subjects.Token(mallory) + ".>"))
		defer func() { _ = c.conn.Close() }()
	}
	client := s.agent(mallory)
	text := strings.Repeat("A paragraph of a text that is long enough to be a chunk. "+rand.Text()+"\n\n", 8000)
	var made envelope.Accepted
	r, err := client.Call(ctx, clientlib.Call{
		Tool: "transcript.clean", Input: []byte(fmt.Sprintf(`{"text":%q}`, auth.NewID()+text)),
		OnChunk: func(envelope.Chunk) error { return nil }, OnAccepted: func(a envelope.Accepted) { made = a },
	})
	if s.must(err); r.Provenance.OutputRef == nil {
		s.Fatalf("an output of %d bytes is not with the payloads: %+v", len(text), r.Error)
	}
	asked := s.askLarge(fmt.Sprintf(`{"form":2,"ref":%q,"sha256":%q,"part":0}`, made.Ref, r.Provenance.OutputRef.SHA256))
	return fmt.Sprintf("%d readers, %d answers of 700 KB", s.readers, asked)
}

// askLarge asks a question with a large answer again and again, eight at a time, and returns how often it was
// answered.
func (s *siege) askLarge(question string) (answered int) {
	s.Helper()
	c, err := s.raw(s.attacker, "asker")
	s.must(err)
	s.must(c.subscribe(answers() + "asker.*"))
	go c.listen()
	for end := time.Now().Add(s.flood); time.Now().Before(end); answered += 8 {
		round := fmt.Sprint(answered)
		for range 8 {
			s.must(c.publish(subjects.Service(subjects.OpPayload, "default", mallory), answers()+"asker."+round,
				rawHeader("Tb-Token: "+s.attacker, "Tb-Answer: asker."+round), question))
		}
		s.must(c.until(func() bool { return len(c.messages) >= 8 }))
		c.mu.Lock()
		small := len(c.messages[0].body) < 100_000
		said := c.messages[0].body
		c.messages = nil // megabytes
		c.mu.Unlock()
		if small {
			s.Fatalf("a question with a large answer is answered by %s", said)
		}
	}
	_ = c.conn.Close()
	<-c.done
	return answered
}

// violate publishes and subscribes to subjects that are not allowed, as fast as the server reads. It opens a new
// connection when the server closes one. At full scale it goes on until a dispatcher has refused it, which depends on
// how many messages the server has refused and not on how long that took, or until it has sent six times as many as
// a dispatcher tolerates.
func (s *siege) violate(context.Context) string {
	s.Helper()
	batch := strings.Repeat("PUB tb.audit.calls.default 0\r\n\r\nSUB tb.call.> 1\r\n", 500)
	sent, closed := 0, 0
	end, most := time.Now().Add(s.flood), 6_000_000
	floods := func() bool {
		return time.Now().Before(end) || *full && *builds == "" && closed == 0 && sent < most
	}
	for floods() {
		c, err := s.raw(s.attacker, "violator")
		if err != nil {
			closed++
			continue
		}
		go c.listen()
		for err == nil && floods() {
			if err = c.send(batch); err == nil {
				sent += 1000
			}
		}
		if err != nil {
			closed++
		}
		_ = c.conn.Close()
		<-c.done
	}
	if *full && *builds == "" && closed == 0 {
		s.Errorf("no connection was closed, and none refused, after %d violations", sent)
	}
	return fmt.Sprintf("%d refused messages, %d connections closed or refused", sent, closed)
}

// callLarge sends calls as large as calls may be over many connections, as fast as the server reads.
func (s *siege) callLarge(context.Context) string {
	s.Helper()
	text := rawPublish("tb.call.default."+subjects.Token(mallory)+".x", answers()+"x.y",
		rawHeader("Tb-Token: "+s.attacker), strings.Repeat("x", 500<<10))
	var sending sync.WaitGroup
	var sent atomic.Int64
	end := time.Now().Add(s.flood)
	for range s.readers {
		sending.Go(func() {
			for time.Now().Before(end) {
				c, err := s.raw(s.attacker, "caller")
				if err != nil {
					continue
				}
				go c.listen()
				for time.Now().Before(end) && c.send(text) == nil {
					sent.Add(1)
				}
				_ = c.conn.Close()
				<-c.done
			}
		})
	}
	sending.Wait()
	return fmt.Sprintf("%d calls of 500 KB from %d connections", sent.Load(), s.readers)
}

// store sends parts of payloads as fast as the server takes them. Another actor stores and reads payloads meanwhile.
func (s *siege) store(ctx context.Context) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(ctx, s.flood)
	defer cancel()
	var flooding sync.WaitGroup
	var sent atomic.Int64
	part := strings.Repeat("x", 500<<10)
	for range 2 {
		flooding.Go(func() {
			c, err := s.raw(s.attacker, "hoarder")
			if err != nil {
				s.Error(err)
				return
			}
			go c.listen()
			own := "tb.payload.default." + subjects.Token(mallory) + "."
			for ctx.Err() == nil {
				err := c.publish(fmt.Sprintf("%s%064x.0.default", own, sent.Add(1)), answers()+"stored", "", part)
				if err != nil {
					break
				}
			}
			_ = c.conn.Close()
			<-c.done
		})
	}
	others, failed := 0, 0
	client := s.agent("agent://carol")
	text := strings.Repeat("A long text. ", 40_000)
	for ; ctx.Err() == nil; others++ {
		r, err := client.Call(context.WithoutCancel(ctx), clientlib.Call{
			Tool: "transcript.clean", Input: []byte(fmt.Sprintf(`{"text":%q}`, auth.NewID()+text)),
			Timeout: 10 * time.Second,
		})
		if err == nil && r.Status != envelope.Success {
			err = errors.New(r.Error.String())
		}
		if err != nil {
			failed++
			s.Logf("a call with a large input failed: %v", err)
		}
	}
	flooding.Wait()
	if failed > 0 && *builds == "" {
		s.Errorf("%d of %d calls with a large input failed", failed, others)
	}
	return fmt.Sprintf("%d parts of 500 KB, and %d of %d large inputs of others failed", sent.Load(), failed, others)
}

// ask sends requests of an executor to dispatchers as fast as the server takes them.
func (s *siege) ask(context.Context) string {
	s.Helper()
	c, instance := s.rawRogue()
	go c.listen()
	request := rawPublish(subjects.ExecutorRequest(subjects.OpLog, s.rogue.Pool, instance),
		subjects.InboxOf(instance)+".x", "",
		`{"form":2,"seq":1}`)
	batch, sent := strings.Repeat(request, 100), 0
	for end := time.Now().Add(s.flood); time.Now().Before(end); sent += 100 {
		if err := c.send(batch); err != nil {
			s.Logf("the connection of the rogue executor has ended: %v", err)
			break
		}
	}
	_ = c.conn.Close()
	<-c.done
	return fmt.Sprintf("%d requests", sent)
}
