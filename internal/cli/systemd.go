package cli

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// systemd is the service manager that has started this process, see sd_notify(3). The zero value waits for nothing.
type systemd struct {
	socket string        // where it listens; "" if the unit is not of Type=notify
	alive  time.Duration // interval of signs of life; 0 if it expects none
}

// systemdOf returns the service manager that the variables of a process name.
func systemdOf(environ []string) (s systemd) {
	for _, v := range environ {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "NOTIFY_SOCKET":
			s.socket = value
		case "WATCHDOG_USEC":
			if us, err := strconv.ParseInt(value, 10, 64); err == nil && us > 0 {
				s.alive = time.Duration(us) * time.Microsecond / 2
			}
		}
	}
	return s
}

// tellTime is how long a manager may take to read a message, of which a few fit into its socket.
const tellTime = 5 * time.Second

func (s systemd) tell(state string) error {
	if s.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(tellTime)) // fails only if the connection is closed
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	return nil
}

// ready says that the process serves. A manager that does not hear that would wait.
func (s systemd) ready() error { return s.tell("READY=1") }

// live gives signs of life until stop is called. The manager restarts a process that gives none.
func (s systemd) live(ctx context.Context) (stop func()) {
	if s.socket == "" || s.alive == 0 {
		return func() {}
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	var signs sync.WaitGroup
	signs.Go(func() {
		for timer.Sleep(ctx, s.alive) {
			_ = s.tell("WATCHDOG=1") // the manager acts if it hears nothing
		}
	})
	return func() { end(); signs.Wait() }
}
