module github.com/fairlock/locks/cmd/fairlock

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/fairlock/locks v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
)

replace github.com/fairlock/locks => ../..
