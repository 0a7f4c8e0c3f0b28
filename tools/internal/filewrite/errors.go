package filewrite

import (
	"context"
	"errors"
	"syscall"

	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/rootdir"
)

// systemErrors says what the errors of the system mean to the caller. What is not here is an
// io_error.
var systemErrors = []struct {
	err           error
	code, message string
}{
	{syscall.EISDIR, "is_directory", "the path names a folder"},
	{syscall.ENOTDIR, "not_directory", "a part of the path is a file and no folder"},
	{syscall.EEXIST, "not_directory", "a part of the path is a link to nothing"},
	{syscall.ELOOP, "not_directory", "the links in the path lead in a circle"},
	{syscall.ENOSPC, "disk_full", "there is no space left"},
	{syscall.EDQUOT, "disk_full", "the quota is used up"},
	{syscall.EFBIG, "disk_full", "the file is larger than allowed"},
	{syscall.EACCES, "not_writable", "writing is not permitted here"},
	{syscall.EPERM, "not_writable", "writing is not permitted here"},
	{syscall.EROFS, "not_writable", "the file system is read-only"},
	{context.DeadlineExceeded, "timeout", "the time was up before the file was in place"},
	{context.Canceled, "timeout", "the call was stopped before the file was in place"},
}

// classify turns an error of the system into one that the manifest declares. The message never
// holds the path of the root.
func classify(err error, effect program.Effect) error {
	for _, known := range systemErrors {
		if errors.Is(err, known.err) {
			return &program.Error{Code: known.code, Message: known.message, Effect: effect}
		}
	}
	if outside := rootdir.Escape(err); outside != nil {
		return outside.Failure(effect)
	}
	var system syscall.Errno
	errors.As(err, &system) // Escape has made sure of it
	return &program.Error{Code: "io_error", Message: "the file system failed: " + system.Error(), Effect: effect}
}
