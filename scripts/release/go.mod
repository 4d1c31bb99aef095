module github.com/fairlock/locks/scripts/release

go 1.26.0

require (
	github.com/fairlock/locks v0.0.0
	golang.org/x/mod v0.42.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/fairlock/locks => ../..
