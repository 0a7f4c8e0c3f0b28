package usage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// clockTick is the unit of CPU times in /proc. USER_HZ is 100 on Linux.
const clockTick = 10 * time.Millisecond

// Own returns the CPU time and the number of voluntary context switches of this process.
func Own() (cpu time.Duration, wakeUps uint64, err error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), uint64(r.Nvcsw), nil
}

// WriteCalls returns the number of write system calls of this process, including writes to sockets and files and those
// that wake threads.
func WriteCalls() (n uint64, err error) {
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(io, []byte("\nsyscw:"))
	if _, err := fmt.Sscan(string(after), &n); err != nil {
		return 0, fmt.Errorf("/proc/self/io: %w", err)
	}
	return n, nil
}

// WakeUps returns the number of voluntary context switches of the threads of a process. Ended threads do not count, but
// a Go process rarely ends threads.
func WakeUps(pid int) (sum uint64, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range threads {
		status, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has just ended
		}
		if err != nil {
			return 0, err
		}
		_, after, _ := bytes.Cut(status, []byte("\nvoluntary_ctxt_switches:"))
		var n uint64
		if _, err := fmt.Sscan(string(after), &n); err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		sum += n
	}
	return sum, nil
}

// CPU returns the CPU time of a process.
func CPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain any character. utime and stime are fields 14 and 15.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// ResidentMB returns the resident memory of a process in MB.
func ResidentMB(pid int) (float64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		return 0, fmt.Errorf("/proc/%d/statm: %w", pid, err)
	}
	return float64(resident) * float64(os.Getpagesize()) / (1 << 20), nil
}
