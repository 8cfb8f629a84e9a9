module stores

go 1.22

require (
	github.com/syndtr/goleveldb v1.0.0
	go.etcd.io/bbolt v1.3.11
)

require (
	github.com/golang/snappy v0.0.0-20180518054509-2e65f85255db // indirect
	golang.org/x/sys v0.4.0 // indirect
)
