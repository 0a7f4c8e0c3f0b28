package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// sweep sends SIGSTOP to all descendants until it finds no new one, so that a fork bomb cannot outrun it. Then it kills
// them all. The kernel may hide a process whose parent is just ending, so callers call sweep again until no child is
// left.
//
// If a process ends and the kernel gives its pid to an unrelated process before the signal, sweep hits that process.
// For this, the pid counter would have to wrap around during one sweep.
func sweep() {
	frozen := map[int]bool{}
	for range 64 {
		fresh := 0
		for _, pid := range descendants(os.Getpid()) {
			if !frozen[pid] {
				frozen[pid] = true
				fresh++
				unix.Kill(pid, unix.SIGSTOP)
			}
		}
		if fresh == 0 {
			break
		}
	}
	for pid := range frozen {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// descendants returns the pids of all descendants of pid, parents first.
func descendants(pid int) []int {
	var all []int
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		found, err := children(queue[0])
		if err != nil {
			continue // it has ended; its children are now children of this process, and the next call finds them
		}
		all = append(all, found...)
		queue = append(queue, found...)
	}
	return all
}

// children returns the pids of the children of pid. The kernel lists them by thread.
func children(pid int) ([]int, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, task := range tasks {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if errors.Is(err, os.ErrNotExist) && len(tasks) > 1 || errors.Is(err, unix.ESRCH) {
			continue // this thread has ended
		}
		if err != nil {
			return nil, err
		}
		for field := range bytes.FieldsSeq(raw) {
			child, err := strconv.Atoi(string(field))
			if err != nil {
				return nil, fmt.Errorf("children of %d: %w", pid, err)
			}
			all = append(all, child)
		}
	}
	return all, nil
}
