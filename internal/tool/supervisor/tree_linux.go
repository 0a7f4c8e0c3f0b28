package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// sweep freezes what it can see until it sees nothing new, so that a fork bomb cannot outrun
// it, and then kills all of it. The kernel may hide a process whose parent is just ending, so
// callers sweep again until they have no child left.
//
// A pid that ends and is given to a stranger between the look and the signal would hit that
// stranger; that takes a whole turn of the pid counter within one sweep.
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

// descendants lists the living processes below pid, parents first.
func descendants(pid int) []int {
	var all []int
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		found, err := children(queue[0])
		if err != nil {
			continue // it ended; its children are ours now and the next look finds them
		}
		all = append(all, found...)
		queue = append(queue, found...)
	}
	return all
}

// children lists the child processes of pid; the kernel keeps them by thread.
func children(pid int) ([]int, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, task := range tasks {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if errors.Is(err, os.ErrNotExist) && len(tasks) > 1 || errors.Is(err, unix.ESRCH) {
			continue // this thread ended
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
