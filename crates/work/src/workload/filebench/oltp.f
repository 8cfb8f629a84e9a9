# A database: readers of random pages, writers that write as many back, durably and asynchronously, and the writer of its log.
# Parameters of the F2FSJ paper's artifact; how many posts a writer waits for is ours, so that there are as many writes as reads.
set $nfiles=800
set $filesize=10m
set $logsize=10m
set $iosize=2k
set $logiosize=256k
set $nreaders=200
set $nwriters=10
set $writes=100
set $posts=1000
set $logposts=3200
set $hog=200000

define fileset name=data,path=/,entries=$nfiles,dirwidth=1024,dirgamma=0,size=$filesize,prealloc=100
define file name=log,path=/,size=$logsize,prealloc

define process name=logger,instances=1
{
  thread name=logger
  {
    flowop write name=log-write,filename=log,iosize=$logiosize,random,dsync
    flowop semblock name=log-wait,value=$logposts,highwater=6400
  }
}

define process name=writer,instances=$nwriters
{
  thread name=writer
  {
    flowop aiowrite name=write-back,filesetname=data,iosize=$iosize,iters=$writes,random,dsync,opennext
    flowop hog name=writer-work,value=10000
    flowop semblock name=write-wait,value=$posts,highwater=2000
    flowop aiowait name=write-end
  }
}

define process name=reader,instances=$nreaders
{
  thread name=reader
  {
    flowop read name=page,filesetname=data,iosize=$iosize,random,opennext
    flowop hog name=reader-work,value=$hog
    flowop sempost name=post-log,target=log-wait,value=1,blocking
    flowop sempost name=post-writer,target=write-wait,value=1,blocking
    flowop eventlimit name=rate
  }
}

run 120
