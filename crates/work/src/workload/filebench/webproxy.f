# A caching proxy: an object replaced, five read, all in one large directory. Parameters of the F2FSJ paper's artifact; its text
# speaks of 100 threads.
set $nfiles=250000
set $dirwidth=1000000
set $filesize=16k
set $appendsize=16k
set $iosize=1m
set $nthreads=1
set $count=4000000

define fileset name=cache,path=/,entries=$nfiles,dirwidth=$dirwidth,size=$filesize,prealloc=80

define process name=proxy,instances=1
{
  thread name=handler,instances=$nthreads
  {
    flowop deletefile name=evict,filesetname=cache
    flowop createfile name=fetch,filesetname=cache,fd=1
    flowop appendfile name=store,iosize=$appendsize,fd=1
    flowop closefile name=close-fetch,fd=1
    flowop openfile name=open-1,filesetname=cache,fd=1
    flowop readwholefile name=read-1,iosize=$iosize,fd=1
    flowop closefile name=close-1,fd=1
    flowop openfile name=open-2,filesetname=cache,fd=1
    flowop readwholefile name=read-2,iosize=$iosize,fd=1
    flowop closefile name=close-2,fd=1
    flowop openfile name=open-3,filesetname=cache,fd=1
    flowop readwholefile name=read-3,iosize=$iosize,fd=1
    flowop closefile name=close-3,fd=1
    flowop openfile name=open-4,filesetname=cache,fd=1
    flowop readwholefile name=read-4,iosize=$iosize,fd=1
    flowop closefile name=close-4,fd=1
    flowop openfile name=open-5,filesetname=cache,fd=1
    flowop readwholefile name=read-5,iosize=$iosize,fd=1
    flowop closefile name=close-5,fd=1
    flowop finishoncount name=enough,value=$count
  }
}

run 86400
