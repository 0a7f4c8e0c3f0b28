package bus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a connection that counts writes. Over a pipe they wait for the peer to read.
type counted struct {
	net.Conn
	writes []int // their sizes
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.writes = append(c.writes, n)
	return n, err
}

// longTime is the timeout of a write.
const longTime = time.Minute

// pipe returns a Conn, the connection below it, and the peer. A write below waits until the peer reads.
func pipe(t *testing.T) (c *CoalescedConn, below *counted, peer net.Conn) {
	ours, peer := net.Pipe()
	below = &counted{Conn: ours}
	c = NewCoalescedConn(below, longTime)
	t.Cleanup(func() { _ = errors.Join(c.Close(), peer.Close()) })
	return c, below, peer
}

// crowded has c write behind, as after a write that has just ended.
func crowded(c *CoalescedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
}

func readAll(t *testing.T, from io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
		t.Errorf("read %.100q, %v; want %.100q", got, err, want)
	}
}

func writeAll(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); err != nil || n != len(text) {
		t.Errorf("write %.100q: %d, %v", text, n, err)
	}
}

// A lone message is written by its own Write: no other goroutine has to run first.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, below, peer := pipe(t)
		for range 3 {
			written := make(chan struct{})
			go func() { writeAll(t, c, "lone"); close(written) }()
			synctest.Wait()
			select {
			case <-written:
				t.Fatal("Write returned before the peer read")
			default:
			}
			readAll(t, peer, "lone")
			<-written
			<-time.After(soon)
		}
		if len(below.writes) != 3 {
			t.Errorf("%d writes", len(below.writes))
		}
	})
}

// After a burst, messages are written behind until four of them came alone.
func TestBurstEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, below, peer := pipe(t)
		go writeAll(t, c, "x")
		synctest.Wait() // the write waits for the peer, so the next two make one batch
		writeAll(t, c, "a")
		writeAll(t, c, "b")
		readAll(t, peer, "xab")
		for range quiet {
			synctest.Wait()
			<-time.After(time.Second)
			writeAll(t, c, "behind") // it does not wait for the peer
			readAll(t, peer, "behind")
		}
		synctest.Wait()
		<-time.After(time.Second)
		written := make(chan struct{})
		go func() { writeAll(t, c, "lone"); close(written) }()
		synctest.Wait()
		select {
		case <-written:
			t.Error("a lone message was written behind")
		default:
		}
		readAll(t, peer, "lone")
		<-written
		if fmt.Sprint(below.writes) != "[1 2 6 6 6 6 4]" {
			t.Errorf("writes of %v bytes", below.writes)
		}
	})
}

// Messages that come while others are written, or shortly after, are written at once, in order, with one write.
func TestCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, below, peer := pipe(t)
		crowded(c)
		writeAll(t, c, "first")
		synctest.Wait() // for the goroutine that writes it
		var all string
		for n := range 300 {
			text := fmt.Sprint("message ", n, "\r\n")
			writeAll(t, c, text) // it must not wait: nobody reads
			all += text
		}
		readAll(t, peer, "first"+all)
		synctest.Wait()
		if fmt.Sprint(below.writes) != fmt.Sprint([]int{5, len(all)}) {
			t.Errorf("writes of %v bytes", below.writes)
		}
		writeAll(t, c, "next") // soon after
		synctest.Wait()
		writeAll(t, c, "and") // while that is written
		writeAll(t, c, "one more")
		readAll(t, peer, "nextandone more")
		synctest.Wait()
		if fmt.Sprint(below.writes[2:]) != "[4 11]" {
			t.Errorf("writes of %v bytes", below.writes[2:])
		}
	})
}

// Write accepts at most limit bytes that cannot be written, and blocks then.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, below, peer := pipe(t)
		crowded(c)
		writeAll(t, c, "taken")
		synctest.Wait()
		piece := string(bytes.Repeat([]byte("x"), limit/4))
		for range 4 {
			writeAll(t, c, piece)
		}
		accepted := make(chan struct{})
		go func() { writeAll(t, c, "y"); close(accepted) }()
		synctest.Wait()
		select {
		case <-accepted:
			t.Fatal("more than the limit was accepted")
		default:
		}
		if cap(c.behind) > 2*limit {
			t.Errorf("the buffer has %d bytes", cap(c.behind))
		}
		readAll(t, peer, "taken")
		<-accepted
		large := string(bytes.Repeat([]byte("z"), 2*limit))
		go writeAll(t, c, large) // waits for all before it, and is not copied
		for range 4 {
			readAll(t, peer, piece)
		}
		readAll(t, peer, "y"+large)
		synctest.Wait()
		if fmt.Sprint(below.writes) != fmt.Sprint([]int{5, limit, 1, 2 * limit}) {
			t.Errorf("writes of %v bytes", below.writes)
		}
		if cap(c.behind) > 2*limit || cap(c.spare) > 2*limit {
			t.Errorf("buffers of %d and %d bytes", cap(c.behind), cap(c.spare))
		}
	})
}

// The error of a write behind is returned by the next Write, and by all that wait. The connection is closed.
func TestErrorBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := pipe(t)
		crowded(c)
		writeAll(t, c, "part of it arrives")
		synctest.Wait()
		writeAll(t, c, string(make([]byte, limit)))
		waits := make(chan error)
		go func() {
			_, err := c.Write([]byte("waits"))
			waits <- err
		}()
		ended := make(chan error)
		go func() {
			_, err := c.Read(make([]byte, 1))
			ended <- err
		}()
		readAll(t, peer, "part")
		_ = peer.Close()
		if err := <-waits; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the Write that waited: %v", err)
		}
		if n, err := c.Write([]byte("later")); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a later Write: %d, %v", n, err)
		}
		if err := <-ended; err == nil {
			t.Error("Read goes on")
		}
	})
}

// A Write that writes by itself reports how much arrived. Nothing can follow on half a message.
func TestPartialWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := pipe(t)
		go func() {
			readAll(t, peer, "par")
			synctest.Wait()
			_ = peer.Close()
		}()
		if n, err := c.Write([]byte("part")); n != 3 || err == nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if n, err := c.Write([]byte("later")); n != 0 || err == nil {
			t.Errorf("a later Write: %d, %v", n, err)
		}
	})
}

// A write that the peer holds up ends after the timeout, whichever call of Write it is of, and closes the connection.
func TestTimeout(t *testing.T) {
	for name, before := range map[string]func(*testing.T, *CoalescedConn){
		"writes": func(*testing.T, *CoalescedConn) {},
		"waits": func(t *testing.T, c *CoalescedConn) {
			crowded(c)
			writeAll(t, c, "x")
			synctest.Wait()
			writeAll(t, c, string(make([]byte, limit)))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _, _ := pipe(t)
			before(t, c)
			begun := time.Now()
			_, err := c.Write([]byte("late"))
			if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took != longTime {
				t.Errorf("%s: %v after %s", name, err, took)
			}
			if _, err := c.Write([]byte("later")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: later %v", name, err)
			}
			if _, err := c.Read(make([]byte, 1)); err == nil { // it would wait for the peer
				t.Errorf("%s: it is not closed", name)
			}
		})
	}
}

// Each write has the whole timeout. 0 means no timeout.
func TestTimeoutOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := pipe(t)
		ours, other := net.Pipe()
		patient := NewCoalescedConn(ours, 0)
		for range 3 {
			for _, behind := range []bool{false, true} {
				if behind {
					crowded(c)
				}
				go writeAll(t, c, "text")
				<-time.After(longTime - 1)
				readAll(t, peer, "text")
				synctest.Wait()
				<-time.After(longTime)
			}
			go writeAll(t, patient, "text")
			<-time.After(time.Hour)
			readAll(t, other, "text")
			synctest.Wait()
		}
		if err := errors.Join(patient.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	})
}

// The deadline of a caller is no end of bytes that Write has accepted: tls.Conn sets one that has passed before it
// closes. It ends reads.
func TestDeadlineOfAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := pipe(t)
		crowded(c)
		writeAll(t, c, "accepted")
		synctest.Wait()
		writeAll(t, c, " and behind")
		past := time.Now().Add(-time.Second)
		if err := errors.Join(c.SetWriteDeadline(past), c.SetDeadline(past)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		closed := make(chan error)
		go func() { closed <- c.Close() }()
		synctest.Wait()
		readAll(t, peer, "accepted and behind")
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// Close writes what was accepted. A peer that does not read holds it up for a second, and a Write that waits ends.
func TestClose(t *testing.T) {
	for _, reads := range []string{"all", "the first", "nothing"} {
		synctest.Test(t, func(t *testing.T) {
			c, _, peer := pipe(t)
			crowded(c)
			writeAll(t, c, "first")
			synctest.Wait()
			full := string(make([]byte, limit))
			writeAll(t, c, full)
			waits := make(chan error)
			go func() {
				_, err := c.Write([]byte("waits"))
				waits <- err
			}()
			synctest.Wait()
			begun, closed := time.Now(), make(chan struct{})
			go func() { _ = c.Close(); close(closed) }()
			if err := <-waits; !errors.Is(err, net.ErrClosed) {
				t.Errorf("the Write that waited: %v", err)
			}
			if _, err := c.Write(nil); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a Write after Close: %v", err)
			}
			switch reads {
			case "the first":
				readAll(t, peer, "first")
			case "all":
				readAll(t, peer, "first"+full)
				if n, err := peer.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
					t.Errorf("%d bytes more, %v", n, err)
				}
			}
			<-closed
			if took := time.Since(begun); (reads == "all") != (took == 0) || took > linger {
				t.Errorf("reads %s: closed after %s", reads, took)
			}
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("it is not closed")
			}
		}) // fails if a goroutine is left
	}
}

// What several goroutines write at once arrives whole and once, also while the end comes.
func TestConcurrent(t *testing.T) {
	ours, peer := tcp(t)
	c := NewCoalescedConn(ours, longTime)
	var writers sync.WaitGroup
	var mu sync.Mutex
	accepted := map[string]bool{}
	for w := range 8 {
		writers.Go(func() {
			for n := 0; ; n++ {
				line := fmt.Sprintf("%d %d %s\n", w, n, bytes.Repeat([]byte("x"), n*37%3000))
				if n%97 == 0 {
					line = fmt.Sprintf("%d %d %s\n", w, n, bytes.Repeat([]byte("x"), 2*limit))
				}
				if _, err := c.Write([]byte(line)); err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				accepted[line] = true
				mu.Unlock()
				if w == 0 && n == 2000 {
					writers.Go(func() { _ = c.Close() })
				}
			}
		})
	}
	all, err := io.ReadAll(peer)
	if err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	for line := range bytes.Lines(all) {
		if !accepted[string(line)] {
			t.Fatalf("%.60q came twice, or in pieces, or was not accepted", line)
		}
		delete(accepted, string(line))
	}
	if len(accepted) > 0 {
		t.Errorf("%d lines that were accepted are missing", len(accepted))
	}
}

// tcp returns both ends of a connection over loopback.
func tcp(t *testing.T) (ours, peer net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if ours, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if peer, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(ours.Close(), peer.Close()) })
	return ours, peer
}
