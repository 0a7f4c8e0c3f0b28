package supervisor

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The first versions of Landlock that have the necessary parts.
const (
	landlockRefer   = 2 // Linux 5.19: a domain can allow links between folders
	landlockSignals = 6 // Linux 6.12: a domain can confine signals
)

// landlockVersion returns the version of Landlock in the kernel. It is 0 if there is no Landlock, or if a filter of
// system calls forbids it.
func landlockVersion() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// HostReach returns the power that runs of this process have on this host.
func HostReach() Reach {
	if privileged() {
		return ReachAll
	}
	return reachWith(landlockVersion())
}

// privileged reports whether this process has a capability with which the kernel lets it, and its runs, read the
// environment and the mappings of any process in spite of Landlock. Root has both.
func privileged() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Capget(&header, &caps[0]) != nil {
		return true
	}
	has := func(c int) bool { return caps[c/32].Permitted&(1<<(c%32)) != 0 }
	return has(unix.CAP_SYS_ADMIN) || has(unix.CAP_PERFMON)
}

func reachWith(version int) Reach {
	switch {
	case version >= landlockSignals:
		return ReachOwn
	case version >= landlockRefer:
		return ReachSignals
	}
	return ReachAll
}

// confine moves the calling thread into a new Landlock domain, as do the processes that it starts afterwards. Landlock
// lets no process of a domain attach to a process outside, or read its memory, environment and open files in /proc. The
// thread must have given up new privileges. confine does nothing with a version that is too old, see [Reach].
func confine(version int) error {
	if reachWith(version) == ReachAll {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL}
	if version < landlockSignals { // a domain must restrict something; the rule of allowLinks takes this back
		attr = unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER}
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_create_ruleset", errno)
	}
	defer unix.Close(int(fd))
	if attr.Handled_access_fs != 0 {
		if err := allowLinks(fd); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}

// allowLinks allows links and renames between all folders. A domain that restricts any use of files forbids them.
func allowLinks(ruleset uintptr) error {
	top, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(top)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_REFER, Parent_fd: int32(top)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_add_rule", errno)
	}
	return nil
}
