//go:build !linux

package usage

import (
	"errors"
	"time"
)

var errPlatform = errors.New("bench measures CPU and memory on Linux only")

func Own() (time.Duration, uint64, error) { return 0, 0, errPlatform }
func WriteCalls() (uint64, error)         { return 0, errPlatform }
func WakeUps(int) (uint64, error)         { return 0, errPlatform }
func CPU(int) (time.Duration, error)      { return 0, errPlatform }
func ResidentMB(int) (float64, error)     { return 0, errPlatform }
